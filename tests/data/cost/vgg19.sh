#!/bin/sh
# Prints VGG19 as a net file: $1 classes, $2 images a batch.
classes=$1 batch=$2
echo 'name: "VGG19"'
echo "layer { name: \"data\" type: \"Data\" top: \"data\" top: \"label\" transform_param { crop_size: 224 } data_param { source: \"none\" batch_size: $batch } }"
bottom=data
for layer in 1_1:64 1_2:64 p1 2_1:128 2_2:128 p2 3_1:256 3_2:256 3_3:256 3_4:256 p3 4_1:512 4_2:512 4_3:512 4_4:512 p4 5_1:512 5_2:512 5_3:512 5_4:512 p5; do
    case $layer in
    p*) echo "layer { name: \"pool${layer#p}\" type: \"Pooling\" bottom: \"$bottom\" top: \"$layer\" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }"; bottom=$layer ;;
    *) name=conv${layer%:*}
       echo "layer { name: \"$name\" type: \"Convolution\" bottom: \"$bottom\" top: \"$name\" convolution_param { num_output: ${layer#*:} kernel_size: 3 pad: 1 } }"
       echo "layer { name: \"relu$name\" type: \"ReLU\" bottom: \"$name\" top: \"$name\" }"; bottom=$name ;;
    esac
done
for layer in fc6:4096 fc7:4096 fc8:$classes; do
    name=${layer%:*}
    echo "layer { name: \"$name\" type: \"InnerProduct\" bottom: \"$bottom\" top: \"$name\" inner_product_param { num_output: ${layer#*:} } }"; bottom=$name
done
echo "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"fc8\" bottom: \"label\" top: \"loss\" }"
