"""Linear layers of poseidon.torch.DataParallel: what they send in the place of their weights' gradients.

The gradient of a layer's output and its input are the factors of its weight's gradient. autograd does not multiply them, but goes on to
compute whatever else the weight's gradient has, of a penalty or of another use: .grad then has it, and is found not to be empty.
"""
import types

import torch
from torch.nn.functional import linear, pad

eager = torch.compiler.disable if hasattr(torch, "compiler") else lambda function: function  # torch.compile leaves it as it is


class Product(torch.autograd.Function):
    """That of a Linear layer, whose backward hands its factors over."""

    @staticmethod
    def forward(ctx, x, weight, bias, keep):
        ctx.keep = keep
        ctx.save_for_backward(x, weight)
        return linear(x, weight.detach(), None if bias is None else bias.detach())  # else autocast keeps copies without gradients

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        ctx.keep(gradient, x)
        return (gradient @ weight.to(gradient.dtype) if ctx.needs_input_grad[0] else None, None,
                gradient.reshape(-1, gradient.shape[-1]).sum(0) if ctx.needs_input_grad[2] else None, None)


class Factors:
    """Those of this rank. `rows` has the weights that send factors, from the start on; before, all Linear layers keep them."""

    def __init__(self, model, modules):
        self.model, self.rows, self.pending, self.kept, self.wanted = model, {}, {}, {}, set()
        product = eager(lambda m, x: self._product(m, x))
        users = [id(p) for m in model.module.modules() for p in m.parameters(recurse=False)]
        for m in modules:
            if type(m) is torch.nn.Linear and "forward" not in vars(m) and m.weight in model.numbers:
                if users.count(id(m.weight)) == 1 and m.weight.is_contiguous():
                    m.forward = types.MethodType(product, m)  # a copy of m has one that is bound to the copy
                    model.undo.callback(delattr, m, "forward")
                    model.undo.callback(m.weight.register_hook(lambda _, p=m.weight: self.wanted.add(p)).remove)

    def _product(self, m, x):
        p = m.weight
        if p in (self.rows if self.model.views else self.model.numbers) and p.requires_grad and torch.is_grad_enabled():
            if len(p._backward_hooks) > 1 or getattr(p, "_post_accumulate_grad_hooks", None):  # which want to see its gradient
                self._refuse(self.model.views, p, "its gradient has a hook")
                return linear(x, p, m.bias)
            return Product.apply(x, p, m.bias, lambda *sides: self._keep(p, *sides))
        return linear(x, p, m.bias)  # copies of the net come here, too

    def begin(self):  # a backward pass; whose .grad is None was zeroed since no_sync
        self.kept = {p: kept for p, kept in self.kept.items() if p.grad is not None}

    def _keep(self, p, gradient, x):  # for the gradient of x alone, as far as is known by now
        self.model._queue()
        self.pending.setdefault(p, []).append((gradient, x if self.model.syncs else x.clone()))  # the next batch may come where x is

    def confirm(self, p):  # autograd has added to .grad all that it computes in this pass
        kept = self.kept.setdefault(p, [])
        kept += self.pending.pop(p, ())
        if kept and p.grad is None and not self.model.syncs:
            p.grad = torch.zeros_like(p)

    def end(self):  # of a backward pass
        strange = self.wanted.intersection(self.pending)
        self.wanted.clear(), self.pending.clear()
        for p in strange:
            self._refuse(True, p, "its gradient is asked for by torch.autograd.grad")

    def _refuse(self, what, p, why):
        self.model._refuse(what, f"{self.model.names[p]}: {why}, which factors cannot give: use DataParallel(..., factors=False)")

    def count(self, p):
        return sum(x.shape[:-1].numel() for _, x in self.kept.get(p, ()))

    def take(self, p):
        """Both factors of all passes of a step, with as many rows as all ranks have; or nothing."""
        rows, room, parts = self.count(p), self.rows.get(p), zip(*self.kept.pop(p, ()))
        sides = [torch.cat([side.detach().reshape(-1, side.shape[-1]).float() for side in part]) for part in parts]
        if room:
            self._refuse(rows > room, p, f"{rows} rows in this step, and {room} in rank 0's first")
            self._refuse(p.grad is not None and p.grad.any(), p, "its gradient has a part that its Linear layer does not make")
            return [pad(side, (0, 0, 0, room - rows)) for side in sides]  # a smaller batch
        if sides:  # of the first step: there are to be no factors
            p.grad = (sides[0].t() @ sides[1]).to(p.dtype) + (0 if p.grad is None else p.grad)
        return ()
