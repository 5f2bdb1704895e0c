#!/bin/sh
# poseidon draw: boxes, blobs, in-place layers, blocks that repeat, schemes of a plan, and what it refuses.
# Pictures are judged by what Graphviz wrote; numbers of boxes by the nets' definitions.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
models=$abs_top_srcdir/models

# draws OUT ARGUMENT...: in silence.
draws() {
    picture=$1
    shift
    run draw "$@" "$picture" --force
    [ "$status" -eq 0 ] || fail "draw $* $picture: status $status: $err"
    [ -z "$out$err" ] || fail "draw $* $picture: says '$out$err'"
}

# counts NUMBER PATTERN: lines of the picture that have it.
counts() {
    found=$(grep -c -e "$2" "$picture")
    [ "$found" -eq "$1" ] || fail "$picture has $found times '$2', expected $1"
}

cat >net.prototxt <<'END'
name: 'a "b" <c>'
layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [1, 2, 4, 4] } } }
layer { name: 'c<1>' type: 'Convolution' bottom: 'x' top: 'c1' convolution_param { num_output: 3 kernel_size: 3 pad: 1 } }
layer { name: 'r"1"' type: 'ReLU' bottom: 'c1' top: 'c1' }
layer { name: 'd\\n' type: 'Dropout' bottom: 'c1' top: 'c1' dropout_param { dropout_ratio: 0.25 } }
layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { pool: AVE global_pooling: true } }
layer { name: 'cat' type: 'Concat' bottom: 'c1' bottom: 'x' top: 'cat&' }
END

# A file name's ending counts in capitals, too.
draws out.DOT --model=net.prototxt

# Layers that work in place stand in the box before them; splits are not there; blobs are where edges begin.
draws out.dot --model=net.prototxt
counts 4 '^  n[0-9]* \['
counts 4 ' -> '
counts 1 '<B>c&lt;1&gt;</B>.*Convolution  3, 3 x 3&.*+ ReLU, Dropout 0.25&.*;57 parameters&.*c1:  1 x 3 x 4 x 4&'
counts 1 'tooltip="c&lt;1&gt;, r&quot;1&quot;, d\\\\n"'
counts 1 '<B>p</B>.*Pooling  AVE, whole plane&.*p:  1 x 2 x 1 x 1&'
counts 1 ';cat&amp;:  1 x 5 x 4 x 4&'
for edge in 'n0:b0:s -> n1' 'n0:b0:s -> n2' 'n1:b0:s -> n3' 'n0:b0:s -> n3'; do
    counts 1 "^  $edge;"
done

# A net that is long stands in columns of about the same depth, cut where one layer feeds the next: here of 8 and 24 layers,
# with the labels from the first column to the last.
layers() {
    echo "layer { name: 'in' type: 'Input' top: 'x0' top: 'label' input_param { shape { dim: [2, 3] } shape { dim: [2] } } }"
    for i in $(seq "$1"); do
        echo "layer { name: 'l$i' type: 'InnerProduct' bottom: 'x$((i - 1))' top: 'x$i' inner_product_param { num_output: $((i + 1)) } }"
    done
    echo "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x$1' bottom: 'label' }"
}
layers 8 >short.prototxt
draws short.dot --model=short.prototxt
counts 0 'constraint=false\|rank=same'
layers 24 >long.prototxt
draws long.dot --model=long.prototxt
counts 1 '^  { rank=same; n0 -> n13 \[style=invis\]; }'
counts 1 '^  n12:b0:e -> n13:w \[constraint=false'
counts 1 '^  n0:b1:e -> n25:w \[constraint=false'
counts 2 'constraint=false'

# Windows: by name for height and width, once where these are alike; one by one as listed; not known where the file does not say.
cat >windows.prototxt <<'END'
layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [1, 2, 9, 9] } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 4 kernel_h: 3 kernel_w: 1 stride_h: 2 stride_w: 1 } }
layer { name: 'b' type: 'Convolution' bottom: 'x' top: 'b' convolution_param { num_output: 5 kernel_size: [1, 3] stride: [2, 2] } }
layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { pool: AVE kernel_size: 3 stride_h: 1 stride_w: 2 } }
END
draws windows.dot --model=windows.prototxt
counts 1 ';Convolution  4, 3 x 1, stride 2 x 1&'
counts 1 ';Convolution  5, 1 x 3, stride 2 x 2&'
counts 1 ';Pooling  AVE, 3 x 3, stride 1 x 2&'
echo "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 6 } }" >>windows.prototxt
run draw --model=windows.prototxt unknown.dot
has "$err" 'kernel_size (or kernel_h and kernel_w) is missing' 'draw of a convolution without its kernel'
picture=unknown.dot
counts 1 ';Convolution  6, ? x ?&'

# What cannot be built is drawn without shapes.
echo "layer { name: 'd' type: 'Python' top: 'blob' } layer { name: 'l' type: 'Mystery' bottom: 'blob' }" >odd.prototxt
run draw --model=odd.prototxt odd.dot
has "$err" "drawn without shapes: odd.prototxt:1: layer 'd' (Python)" "draw of unknown layers"
picture=odd.dot
counts 1 '^  n0:b0:s -> n1;'
counts 1 ';blob&'

# A size that stands nowhere is named as assumed.
cat >assumed.prototxt <<'END'
layer { name: 'd' type: 'Data' top: 'x' data_param { source: 'nothing' batch_size: 2 } }
layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { global_pooling: true } }
END
run draw --model=assumed.prototxt assumed.dot
picture=assumed.dot
counts 1 "the input's size is assumed"

# ResNet-152: 3 + 8 + 36 + 3 blocks of three convolutions and a sum; a projection in the first of each stage.
resnet=$models/resnet152/train_val.prototxt
draws folded.dot --model="$resnet"
counts 4 'subgraph'
for block in '<B>x 2</B><.*>to res2c<' '<B>x 7</B><.*>to res3b7<' '<B>x 35</B><.*>to res4b35<' '<B>x 2</B><.*>to res5c<'; do
    counts 1 "$block"
done
counts $((4 * (5 + 4) + 6)) '^  n[0-9]* \['
counts 4 ';Convolution  [0-9]*, 1 x 1, stride 2&.*+ BatchNorm, Scale, ReLU&\|;Convolution  [0-9]*, 7 x 7, stride 2&'
counts 1 '>60,344,387 parameters>'

# Two boxes that are alike are no block, three are; blocks that are read from amid are none.
chain() {
    echo "layer { name: 'in' type: 'Input' top: 'b0' input_param { shape { dim: [1, 2, 4, 4] } } }"
    for i in $(seq "$1"); do
        echo "layer { name: 's$i' type: 'Sigmoid' bottom: 'b$((i - 1))' top: 'b$i' }"
    done
}
chain 2 >two.prototxt
draws two.dot --model=two.prototxt
counts 0 'subgraph'
chain 3 >three.prototxt
draws three.dot --model=three.prototxt
counts 1 '<B>x 3</B><.*>to s3<'
{ chain 3 && echo "layer { name: 'e' type: 'Eltwise' bottom: 'b3' bottom: 'b1' top: 'e' }"; } >amid.prototxt
draws amid.dot --model=amid.prototxt
counts 0 'subgraph'

# Schemes: what plan says, for the last number of nodes.
run plan --model="$models/alexnet/train_val.prototxt" --nodes=1,8 --comm=paper --batch=64 --json --draw=planned.dot
[ "$status" -eq 0 ] || fail "plan --draw: status $status: $err"
printf '%s\n' "$out" >plan.json
picture=planned.dot
counts 1 '<BR/>schemes for 8 nodes>'
counts 8 ' parameters by '
if [ -n "$POSEIDON_PYTHON" ]; then
    "$POSEIDON_PYTHON" - <<'END' || fail "schemes in the picture are not those of the plan"
import json, re
plan = json.load(open("plan.json"))[1]["scheme_by_layer"]
drawn = dict(re.findall(r"<B>([^<]+)</B>.*? parameters by (\w+)&", open("planned.dot").read()))
assert plan == drawn and len(set(plan.values())) > 1, (plan, drawn)
END
fi
run plan --model=net.prototxt --nodes=1 --comm=none --draw=none.dot
picture=none.dot
counts 1 '<BR/>schemes for 1 node>'
counts 1 '57 parameters by none&'
refuses 'planned.dot exists already; --force replaces it' plan --model=net.prototxt --draw=planned.dot
cp net.prototxt net.prototxt.dot
refuses 'net.prototxt.dot is one of the inputs' plan --model=net.prototxt.dot --draw=net.prototxt.dot --force
refuses "expected a file name that ends with .dot, *, found 'plan.json'" plan --model=net.prototxt --draw=plan.json
refuses '--force has no effect without --draw' plan --model=net.prototxt --force
refuses "unknown option --plan: 'poseidon plan --draw=OUT.svg' draws each layer's scheme" \
    draw --model=net.prototxt --plan=plan.json no.dot
refuses 'unknown option --columns: a long net is always laid out in columns; leave the option out' \
    draw --model=net.prototxt --columns=2 no.dot

refuses 'Need a model definition: --model=FILE' draw out.svg
refuses 'expected one file to write, such as OUT.svg or OUT.dot' draw --model=net.prototxt
refuses "expected a file name that ends with .dot, .svg, .pdf, .png, .eps, .ps, .jpg, .gif or .webp, found 'new.txt'" \
    draw --model=net.prototxt new.txt
refuses 'none: no such file' draw --model=none new.dot
refuses '/nowhere/new.dot cannot be written: folder /nowhere: No such file or directory' \
    draw --model=net.prototxt /nowhere/new.dot

run draw --model=net.prototxt first.svg
case $err in
*"built without Graphviz's library"*)
    has "$err" "first.svg cannot be drawn: this poseidon was built without Graphviz's library (Debian: libgraphviz-dev, \
Spack: graphviz); or write a name that ends with .dot, and draw it by: dot -Tsvg -O NAME.dot" "draw without Graphviz"
    [ "$failures" -eq 0 ] || exit 1
    echo "pictures were not drawn: built without Graphviz's library"
    exit 77
    ;;
esac

# The library says nothing by itself, whatever the names are.
printf 'layer { name: "a\351\\\\N<b>" type: "Input" top: "x\\"" input_param { shape { dim: 1 } } }\n' >bytes.prototxt
draws bytes.svg --model=bytes.prototxt
counts 1 '>a?\\N&lt;b&gt;</text>'
counts 1 'x&quot;: .*1.*</text>'
export GVBINDIR=/nowhere # where its plugins are not
refuses "none.svg cannot be drawn: Graphviz's library: " draw --model=net.prototxt none.svg
unset GVBINDIR
[ ! -e none.svg ] || fail "a picture that failed was left"

# is FILE BYTES: begins with them.
is() {
    case $(head -c 8 "$1") in
    *"$2"*) ;;
    *) fail "$1 does not begin with $2" ;;
    esac
}
draws net.svg --model=net.prototxt
counts 4 'class="node"'
counts 4 'class="edge"'
counts 1 '+ ReLU, Dropout 0.25.*</text>'
draws net.png --model=net.prototxt
is net.png PNG
draws net.pdf --model=net.prototxt
is net.pdf %PDF
draws resnet.svg --model="$resnet"
counts 4 'class="cluster"'
counts 1 '>x 35</text>'
for net in resnet.svg net.svg bytes.svg; do
    [ -z "$POSEIDON_PYTHON" ] || "$POSEIDON_PYTHON" -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$net" ||
        fail "$net is no XML"
done
finish
