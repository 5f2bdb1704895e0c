#!/bin/sh
# Files that are something else than their readers expect: every reader says what, and the way out.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
images=$abs_top_srcdir/tests/data/input/images
cp "$abs_top_srcdir/data/fashion-mnist-test.h5" data.h5

net() { # FILE TYPE FIELDS
    cat >"$1" <<END
layer { name: 'in' type: '$2' top: 'data' top: 'label' $3 }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
END
}
# refuses_net TEXT TYPE FIELDS
refuses_net() {
    net other.prototxt "$2" "$3"
    refuses "$1" train --solver=solver.prototxt --set net="'other.prototxt'"
}
net net.prototxt Data "data_param { source: 'data.h5' batch_size: 4 }"
echo "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 'x'" >solver.prototxt
works '*' train --solver=solver.prototxt --threads=1 # weights for classify

: >empty
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n' >lfs
printf '\037\213\010\000\000\000\000\000\000\003some packed bytes' >gz
printf '<!DOCTYPE html>\n<html><body>404</body></html>\n' >page
while IFS=: read -r file what; do
    found="found $what"
    names="expected a text with the name of a class on every line*$found"
    [ -s $file ] || names='holds no names of classes'
    for name in w.caffemodel w.caffemodel.h5 s.solverstate n.prototxt list.txt m.binaryproto; do cp $file $name; done
    mkdir db
    cp $file db/data.mdb
    echo "$file 0" >images.txt
    refuses "*w.caffemodel: expected a binary model (.caffemodel), $found*" test --model=net.prototxt --weights=w.caffemodel
    refuses "*w.caffemodel.h5: expected a binary model (.caffemodel), $found*" test --model=net.prototxt --weights=w.caffemodel.h5
    refuses "*s.solverstate: expected a solver state (.solverstate), $found*" train --solver=solver.prototxt --snapshot=s.solverstate
    if [ -s $file ]; then # an empty text is a message without fields, as for protoc
        refuses "*n.prototxt: expected text, $found*" summary --model=n.prototxt
        refuses "*n.prototxt: expected text, $found*" train --solver=n.prototxt
    else
        for command in summary 'summary --definition' time 'plan --nodes=2'; do
            # shellcheck disable=SC2086 # words
            refuses "*n.prototxt: expected a net, $found" $command --model=n.prototxt
        done
        refuses '*n.prototxt: the solver has no base_lr*' train --solver=n.prototxt
    fi
    refuses "*expected a JPEG, PNG or WebP image, $found*" convert images images.txt o.h5
    refuses "*list.txt: expected a list of images, $found*" convert images list.txt o.h5
    refuses "*list.txt: $names*" classify --model=net.prototxt \
        --weights=x_iter_1.caffemodel --labels=list.txt "$images/color.jpg"
    refuses "*n.prototxt: expected an HDF5 file, $found*" mean n.prototxt
    refuses "*db/data.mdb: expected an LMDB file, $found*" mean db
    refuses_net "*list.txt: expected a list of HDF5 files, $found*" HDF5Data "hdf5_data_param { source: 'list.txt' batch_size: 4 }"
    refuses_net "*m.binaryproto: expected a blob (.binaryproto), $found*" Data \
        "data_param { source: 'data.h5' batch_size: 4 } transform_param { mean_file: 'm.binaryproto' }"
    rm -r db
done <<'END'
lfs:a Git LFS pointer, not the file itself: fetch it with 'git lfs pull'
gz:a gzip archive: unpack it with gunzip
page:an HTML page
empty:an empty file
END
# given as a net, and as weights
printf '\n\n  <html>\n<body>404</body></html>\n' >blank
printf '\357\273\277<!DOCTYPE html>\n' >mark
printf 'n\000a\000m\000e\000:\000' >utf16
printf '\377\376n\000a\000m\000e\000' >utf16mark
printf 'b0VIM 8.2\000\000\000\000' >swap
printf '%%PDF-1.4\n' >pdf
printf 'PK\005\006%18s' '' >zip
printf '\012\001n\022\023\012\004data\022\001c\042\004Conv\052\002\012\000' >netdef # operator { input output type arg }
printf '\022\017\022\001w\042\004Fill\052\004\012\002ab' >init            # without a name
printf 'name: "n"\nop {\n  input: "data"\n  type: "Conv"\n}\n' >pbtxt
for file in blank:'an HTML page' mark:'an HTML page' utf16:'UTF-16 text: save it as UTF-8' \
    utf16mark:'UTF-16 text: save it as UTF-8' swap:'a swap file of Vim' pdf:'a PDF document' \
    zip:'a zip archive' netdef:'a NetDef of Caffe2' init:'a NetDef of Caffe2' pbtxt:'a NetDef of Caffe2'; do
    cp "${file%%:*}" n.prototxt
    refuses "*n.prototxt: expected *, found ${file#*:}*" summary --model=n.prototxt
    cp "${file%%:*}" w.caffemodel
    refuses "*w.caffemodel: expected a binary model (.caffemodel), found ${file#*:}*" test --model=net.prototxt --weights=w.caffemodel
done

# what waits for a writer, or never ends; a shell's pipe is none of these
refuses_special() { refuses "*special: not a regular file (a FIFO)*" "$@"; }
mkfifo special
mkdir db
mkfifo db/data.mdb
cp x_iter_1.caffemodel special.caffemodel # the weights' names end so
limit=20
refuses_special summary --model=special
refuses_special train --solver=special
refuses_special train --solver=solver.prototxt --set net="'special'"
refuses_special train --solver=solver.prototxt --snapshot=special
refuses_special train --solver=solver.prototxt --engine=replay --tune=profile=special
refuses_special plan --model=net.prototxt --cluster-file=special
refuses_special test --model=net.prototxt --weights=special
refuses_special convert images special o.h5
refuses_special mean special
refuses '*db/data.mdb: not a regular file (a FIFO)*' mean db
if "$POSEIDON" --version | grep -q LevelDB; then # a table of its folder, and a file that is copied
    for name in 000005.ldb 000005.sst MANIFEST-000002 000003.log CURRENT; do
        mkdir level
        echo MANIFEST-000002 >level/CURRENT
        rm -f "level/$name"
        mkfifo "level/$name"
        refuses "*level/$name: not a regular file (a FIFO)*" mean level
        rm -r level
    done
fi
refuses '*/dev/zero: not a regular file (a device)*' convert images /dev/zero o.h5
echo special >h5.txt
echo 'special 0' >list.txt
refuses_special convert images list.txt o.h5
refuses_net '*special: not a regular file (a FIFO)*' ImageData "image_data_param { source: 'list.txt' batch_size: 1 }"
refuses_net '*special: not a regular file (a FIFO)*' HDF5Data "hdf5_data_param { source: 'h5.txt' batch_size: 1 }"
refuses_net '*special: not a regular file (a FIFO)*' HDF5Data "hdf5_data_param { source: 'special' batch_size: 1 }"
refuses_net '*special: not a regular file (a FIFO)*' Data "data_param { source: 'data.h5' batch_size: 4 } transform_param { mean_file: 'special' }"
for option in labels mean; do
    refuses_special classify --model=net.prototxt --weights=x_iter_1.caffemodel --$option=special "$images/color.jpg"
done
limit=
works '*total*' summary --model=/dev/stdin <net.prototxt
rm -r db

# a net without parameters needs no weights; one with parameters, and files in each other's place, are said
cat >plain.prototxt <<'END'
layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { source: 'data.h5' batch_size: 4 } }
layer { name: 'p' type: 'Power' bottom: 'data' top: 'p' power_param { scale: 2 } }
layer { name: 'r' type: 'Reduction' bottom: 'p' top: 'r' }
END
works '*plain.h5: p, 4 rows*' extract --model=plain.prototxt --blobs=p plain.h5
works '*Running for 1 iteration of 4: *r = *' test --model=plain.prototxt --iterations=1
refuses '*Need model weights: --weights=FILE' extract --model=net.prototxt --blobs=ip ip.h5
refuses '*Need model weights: --weights=FILE' test --model=net.prototxt
for command in test 'extract --blobs=ip ip.h5' 'classify x.png'; do
    # shellcheck disable=SC2086 # words
    refuses '*--model=x_iter_1.caffemodel and --weights=net.prototxt are swapped: the net is the .prototxt file' $command \
        --model=x_iter_1.caffemodel --weights=net.prototxt
done

# mean images
printf '\223NUMPY\001\000v\000{}' >mean.npy
mkdir mean_lmdb
for mean in 'mean.npy: expected a blob (.binaryproto), found a NumPy array (.npy): *a mean image or data as an HDF5 data set' \
    "mean_lmdb is a folder; expected the file of a mean image: 'poseidon mean mean_lmdb mean.h5' makes one"; do
    refuses_net "*$mean*" Data "data_param { source: 'data.h5' batch_size: 4 } transform_param { mean_file: '${mean%%[: ]*}' }"
    refuses "*$mean*" classify --model=net.prototxt --weights=x_iter_1.caffemodel --mean="${mean%%[: ]*}" "$images/color.jpg"
done

# lists
case $("$POSEIDON" --version) in *JPEG*PNG*) ;; *) echo 'left out: lists (built without JPEG or PNG)'; finish ;; esac
cp "$images/color.jpg" a.jpg
cp "$images/color.jpg" 'b 2.jpg'
cp "$images/color.jpg" 'c.jpg 2'
while IFS=: read -r line what; do
    printf 'a.jpg 0\n%s\n' "$line" >list.txt
    refuses "*list.txt:2: $what*" convert images list.txt o.h5
    refuses_net "*list.txt:2: $what*" ImageData "image_data_param { source: 'list.txt' batch_size: 1 }"
done <<'END'
a.jpg 0 1 0:'a.jpg 0 1 0' has 3 labels; expected "PATH LABEL" (ImageData reads several with label_size: 3, HDF5Data from HDF5 files)
a.jpg 0.5 1:'a.jpg 0.5 1' has 2 labels
c.jpg 2 1:'c.jpg 2 1' has 2 labels
a.jpg 5000000000:the label 5000000000 does not fit into 32 bits
a.jpg -99999999999999999999:the label -99999999999999999999 does not fit into 32 bits
a.jpg 1.5:the label '1.5' is not an integer; expected "PATH LABEL" (ImageData reads reals with label_size: 1)
"b 2.jpg" 1 0:'"b 2.jpg" 1 0' has 2 labels
"b 2.jpg" x 0:'"b 2.jpg" x 0' has 2 labels
END
while IFS=: read -r line what; do
    printf 'a.jpg 0.3 12 -1\n"b 2.jpg" 1 2 3\n%s\n' "$line" >list.txt
    refuses_net "*list.txt:3: $what*" ImageData "image_data_param { source: 'list.txt' batch_size: 1 label_size: 3 }"
done <<'END'
a.jpg 1 2:'a.jpg 1 2' has 2 labels; expected 3, as label_size says
b 2.jpg 1:'b 2.jpg 1' has 1 label; expected 3
a.jpg 1 2 3 4:'a.jpg 1 2 3 4' has 4 labels; expected 3
"b 2.jpg" x 1 2 3:'"b 2.jpg" x 1 2 3' has 4 labels; expected 3
a.jpg:'a.jpg' has 0 labels; expected 3
a.jpg 1 nan 3:the label nan is not a finite number
a.jpg 1 2 1e40:the label 1e40 is not a finite number
END
printf 'a.jpg %s\n' "$(seq -s' ' 80)" >list.txt
refuses_net "*list.txt:1: 'a.jpg 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 ...' has 80 labels; expected 3*" ImageData \
    "image_data_param { source: 'list.txt' batch_size: 1 label_size: 3 }"
refuses_net '*label_size is 0; expected 1 to*' ImageData "image_data_param { source: 'list.txt' batch_size: 1 label_size: 0 }"
printf '\357\273\277a.jpg 0\nb 2.jpg 1\n"c.jpg 2" 3\n' >list.txt
works '*3 images of 3x23x37*' convert images list.txt o.h5
printf '\357\273\277o.h5\n' >h5.txt
net mark.prototxt HDF5Data "hdf5_data_param { source: 'h5.txt' batch_size: 2 }"
works '*ready to train*' train --solver=solver.prototxt --set net="'mark.prototxt'" --dry-run
mkdir -p folder/in
mv a.jpg 'b 2.jpg' folder/in
refuses_net "*root_folder 'folder/in' needs a slash at its end: there is no folder/ina.jpg, but there is folder/in/a.jpg*" ImageData \
    "image_data_param { source: 'list.txt' root_folder: 'folder/in' batch_size: 1 }"

# named data bases
if [ -n "${POSEIDON_PYTHON:-}" ] && "$POSEIDON_PYTHON" -c 'import lmdb' 2>/dev/null; then
    "$POSEIDON_PYTHON" -c "
import lmdb
with lmdb.open('named_lmdb', max_dbs=2) as env:
    images = env.open_db(b'images')
    with env.begin(write=True, db=images) as transaction:
        transaction.put(b'a', b'x' * 10)"
    refuses "*named_lmdb/data.mdb: an LMDB of named data bases, such as 'images'; *mdb_dump -s NAME*" mean named_lmdb
else
    echo 'left out: named data bases (no python3 with lmdb)'
fi
finish
