#!/bin/sh
# tools/draw.py: boxes, blobs, in-place layers, blocks that repeat, schemes of a plan, and what it refuses.
# Pictures are judged by what Graphviz wrote; numbers of boxes by the nets' definitions.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
models=$abs_top_srcdir/models
python3 -c '' 2>/dev/null || { echo 'SKIP: no Python'; exit 77; }
program=$abs_top_srcdir/tools/draw.py

# draws OUT ARGUMENT...: in silence.
draws() {
    picture=$1
    shift
    run "$@" "$picture" --force
    [ "$status" -eq 0 ] || fail "draw.py $* $picture: status $status: $err"
    [ -z "$out$err" ] || fail "draw.py $* $picture: says '$out$err'"
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
run --model=windows.prototxt unknown.dot
has "$err" 'kernel_size (or kernel_h and kernel_w) is missing' 'draw of a convolution without its kernel'
picture=unknown.dot
counts 1 ';Convolution  6, ? x ?&'

# What cannot be built is drawn without shapes.
echo "layer { name: 'd' type: 'Python' top: 'blob' } layer { name: 'l' type: 'Mystery' bottom: 'blob' }" >odd.prototxt
run --model=odd.prototxt odd.dot
has "$err" "drawn without shapes: odd.prototxt:1: layer 'd' (Python)" "draw of unknown layers"
picture=odd.dot
counts 1 '^  n0:b0:s -> n1;'
counts 1 ';blob&'

# A size that stands nowhere is named as assumed.
cat >assumed.prototxt <<'END'
layer { name: 'd' type: 'Data' top: 'x' data_param { source: 'nothing' batch_size: 2 } }
layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { global_pooling: true } }
END
run --model=assumed.prototxt assumed.dot
picture=assumed.dot
counts 1 "the input's size is assumed"
counts 1 ';x:  2 x 3 x 224 x 224 assumed&'

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

# Schemes: what plan says, for the last number of nodes; planned by the script, or read.
net=$models/alexnet/train_val.prototxt
draws planned.dot "$net" --nodes=1,8 --comm=paper --batch=64 --input-shape=3,227,227
counts 1 '<BR/>schemes for 8 nodes>'
counts 8 ' parameters by '
"$POSEIDON" plan --model="$net" --nodes=1,8 --comm=paper --batch=64 --input-shape=3,227,227 --json >plan.json 2>said
"$POSEIDON" summary --model="$net" --batch=64 --input-shape=3,227,227 --json >summary.json 2>said
draws read.dot --plan=plan.json --batch=64 --input-shape=3,227,227 "$net"
cmp -s planned.dot read.dot || fail 'a plan that is read is drawn otherwise'
draws read.dot --plan=plan.json summary.json
cmp -s planned.dot read.dot || fail 'a net that is read is drawn otherwise'
python3 - <<'END' || fail "schemes in the picture are not those of the plan"
import json, re
plan = json.load(open("plan.json"))[1]["scheme_by_layer"]
drawn = dict(re.findall(r"<B>([^<]+)</B>.*? parameters by (\w+)&", open("planned.dot").read()))
assert plan == drawn and len(set(plan.values())) > 1, (plan, drawn)
END
draws none.dot net.prototxt --nodes=1 --comm=none
counts 1 '<BR/>schemes for 1 node>'
counts 1 '57 parameters by none&'
# two layers of one name have a scheme each
{
    echo "layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: [1, 1, 64, 64] } shape { dim: 1 } } }"
    echo "layer { name: 'l' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 1 kernel_size: 1 } }"
    echo "layer { name: 'l' type: 'InnerProduct' bottom: 'a' top: 'b' inner_product_param { num_output: 4096 } }"
    echo "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'b' bottom: 'y' }"
} >twice.prototxt
draws twice.dot twice.prototxt --nodes=8 --comm=paper
counts 1 ' parameters by sfb&'
counts 1 ' parameters by ps&'

# What is there, and what the net is made of
refuses 'draw.py: planned.dot exists already; --force replaces it' net.prototxt planned.dot
cp net.prototxt net.prototxt.dot
cp plan.json plan.json.dot
refuses 'net.prototxt.dot is one of the inputs' net.prototxt.dot net.prototxt.dot --force
refuses 'plan.json.dot is one of the inputs' summary.json --plan=plan.json.dot plan.json.dot --force
mkdir folder.dot
refuses 'folder.dot is a folder' net.prototxt folder.dot
refuses "expected a file name that ends with .dot, .svg, .pdf, .png, .eps, .ps, .jpg, .gif or .webp, found 'new.txt'" \
    net.prototxt new.txt
refuses '/nowhere/new.dot cannot be written: there is no folder /nowhere' net.prototxt /nowhere/new.dot
refuses 'expected a net and a file to write, such as OUT.svg or OUT.dot, found 1 words (out.svg)' out.svg
refuses 'found 3 words (net.prototxt 8 new.dot); options are written --NAME=VALUE' net.prototxt --nodes 8 new.dot
refuses '--plan needs a value' net.prototxt new.dot --plan
refuses 'draw.py: poseidon summary: none: no such file' none new.dot
refuses "draw.py: poseidon summary: --level expects a whole number, found 'much'" --model=odd.prototxt --level=much new.dot
refuses 'draw.py: poseidon plan: unknown option --colour' net.prototxt --colour=red new.dot
refuses '--nodes=2 has no effect on summary.json' summary.json --nodes=2 new.dot
refuses '--nodes=2 has no effect on plan.json, which is planned already' net.prototxt --plan=plan.json --nodes=2 new.dot
refuses 'draw.py: plan.json is of another net' net.prototxt --plan=plan.json new.dot
refuses 'no.json: No such file or directory' no.json new.dot
works '*usage: draw.py *OUT.dot*' --help

# Files that are no JSON of ours, in place of the net and of the plan: one message, and no picture
: >empty.json
head -c 1000 summary.json >cut.json
printf '\377\376\000' >bytes.json
printf '%0100000d' 0 | tr 0 '[' >deep.json
truncate -s 65M huge.json
for text in '[]' '{}' 3 null '{"name": "x", "layers": 3}' '{"name": "x", "layers": [{"name": "a"}]}' \
    '{"name": "x", "layers": [{"name": "a", "type": "b", "inserted": false, "bottoms": ["none"], "tops": []}]}' \
    '{"name": "x", "layers": [{"name": "a", "type": "b", "inserted": true, "bottoms": [], "tops": []}]}' \
    '{"name": "x", "layers": [{"name": ["a"], "type": "b", "inserted": false, "bottoms": [], "tops": []}]}' \
    '{"name": "x", "layers": [{"name": "a", "type": "b", "inserted": false, "bottoms": [], "tops": [], "pooling_param": []}]}' \
    '{"name": "x", "layers": [{"name": "a", "type": "b", "inserted": false, "bottoms": [], "tops": [{"name": "t", "shape": [Infinity]}]}]}' \
    '[{"nodes": "8", "scheme_by_layer": {}}]' '[{"nodes": 8, "scheme_by_layer": {"conv1": 3}}]'; do
    printf '%s\n' "$text" >foreign.json
    refuses "draw.py: foreign.json: expected what 'poseidon summary --json' prints" foreign.json new.dot
    refuses "draw.py: foreign.json: expected what 'poseidon plan --json' prints" net.prototxt --plan=foreign.json new.dot
done
for file in empty:'is not JSON: it is empty' cut:'is not JSON' bytes:'is not JSON' deep:'is not JSON' huge:'is larger than 64 MB' ; do
    refuses "draw.py: ${file%%:*}.json ${file#*:}" "${file%%:*}.json" new.dot
    refuses "draw.py: ${file%%:*}.json ${file#*:}" net.prototxt --plan="${file%%:*}.json" new.dot
    [ "$(printf '%s\n' "$err" | wc -l)" -eq 1 ] || fail "more than one line: $err"
done

# Other programs that are missing or fail; a disk that is full: one message, and nothing is left
mkdir none fails
ln -s "$(python3 -c 'import sys; print(sys.executable)')" none/python3
cat >fails/dot <<'END'
#!/bin/sh
cat >/dev/null
echo '<svg>half a picture'
echo 'Error: <stdin>: it broke' >&2
exit 1
END
chmod +x fails/dot
# with VARIABLE=VALUE: runs the script so
with() {
    printf '#!/bin/sh\nexport "%s"\nexec python3 "%s" "$@"\n' "$1" "$abs_top_srcdir/tools/draw.py" >with.sh
    chmod +x with.sh
    program=./with.sh
}
with "PATH=$folder/none"
refuses "draw.py: new.svg cannot be drawn: Graphviz's program dot is not in PATH (Debian, Spack: graphviz); or write a name that \
ends with .dot, and draw it where dot is: dot -Tsvg -O NAME.dot" net.prototxt new.svg
draws new.dot net.prototxt
rm new.dot
with "PATH=$folder/fails:$PATH"
refuses 'draw.py: new.svg cannot be drawn: dot: <stdin>: it broke' net.prototxt new.svg
with POSEIDON=/nowhere/poseidon
refuses 'draw.py: /nowhere/poseidon cannot be run: No such file or directory; expected poseidon in PATH, or its place in the variable POSEIDON' \
    net.prototxt new.dot
with POSEIDON=/bin/false
refuses 'draw.py: /bin/false summary ended with status 1' net.prototxt new.dot
program=$abs_top_srcdir/tools/draw.py
for file in new.dot planned.dot; do
    err=$( (ulimit -f 0; exec "$program" --force net.prototxt $file) 2>&1) && fail "$file: written to a full disk"
    has "$err" "draw.py: $file cannot be written: File too large" 'a full disk'
done
grep -q 'schemes for 8 nodes' planned.dot || fail 'a picture that could not be replaced is lost'
left=$(find . -name 'new.*' -o -name '*.tmp')
[ -z "$left" ] || fail "what failed left $left"

# The option that drew says who does now.
program=$POSEIDON
refuses 'poseidon plan: unknown option --draw: tools/draw.py draws nets' plan --model=net.prototxt --draw=out.svg
program=$abs_top_srcdir/tools/draw.py

if ! command -v dot >/dev/null; then
    [ "$failures" -eq 0 ] || exit 1
    echo "pictures were not drawn: Graphviz's program dot is not in PATH"
    exit 77
fi

# Graphviz says nothing by itself, whatever the names are.
printf 'layer { name: "a\351\\\\N<b>" type: "Input" top: "x\\"" input_param { shape { dim: 1 } } }\n' >bytes.prototxt
draws bytes.svg --model=bytes.prototxt
counts 1 '>a?\\N&lt;b&gt;</text>'
counts 1 'x&quot;: .*1.*</text>'
export GVBINDIR=/nowhere # where its plugins are not
refuses 'draw.py: none.svg cannot be drawn: dot: ' net.prototxt none.svg
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
    python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$net" ||
        fail "$net is no XML"
done
finish
