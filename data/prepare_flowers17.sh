#!/bin/sh
# prepare_flowers17.sh JPG [OUT]
#
# Makes of Oxford's 17 categories of flowers what models/alexnet_flowers and models/squeezenet_flowers train on. JPG is the
# folder of that name in 17flowers.tgz (https://www.robots.ox.ac.uk/~vgg/data/flowers/17/), with image_0001.jpg to image_1360.jpg,
# 80 of each class in turn; they are linked into OUT (data/flowers17-256), beside the lists train.txt and test.txt: 64 and
# 16 of each class, drawn once. The solvers have the commands that come next.
set -eu
usage() {
    sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0" >&2
    exit 1
}
case $# in 1 | 2) ;; *) usage ;; esac
case $1 in -*) usage ;; esac
[ -d "$1" ] || { echo "$0: $1: no such folder" >&2; exit 1; }
jpg=$(cd "$1" && pwd) out=${2:-data/flowers17-256}
for number in 1 1360; do
    name=$(printf 'image_%04d.jpg' $number)
    [ -f "$jpg/$name" ] || { echo "$0: $1/$name: no such file; expected the folder jpg of 17flowers.tgz" >&2; exit 1; }
done
tests='
13 15 16 21 27 29 33 34 35 41 44 50 59 68 76 78 90 98 108 110 111 113 115 120 124 139 144 145 150 152 156 160 184
186 187 203 206 207 217 221 226 229 230 232 233 235 238 240 242 245 256 259 263 275 277 278 281 283 293 297 301 303
305 313 331 334 337 341 346 350 359 371 372 377 380 383 387 391 394 396 402 406 410 414 417 432 433 438 439 440 444
445 454 460 463 475 481 484 487 494 497 500 502 518 528 533 534 538 541 543 545 546 561 570 574 577 584 587 589 593
606 607 609 612 613 614 620 627 650 658 667 668 670 673 677 682 689 690 697 698 700 707 712 715 726 733 740 743 746
747 749 755 762 772 773 775 776 781 785 799 813 818 820 823 829 830 835 844 848 854 856 857 870 872 877 878 882 883
884 894 895 896 901 908 909 919 927 942 943 953 955 957 961 964 976 979 983 991 992 998 1006 1016 1019 1023 1028
1029 1032 1039 1045 1050 1054 1060 1062 1064 1065 1073 1077 1081 1082 1087 1089 1101 1115 1118 1125 1130 1137 1139
1140 1146 1151 1163 1164 1166 1176 1188 1193 1195 1199 1200 1203 1204 1205 1206 1209 1216 1219 1221 1222 1229 1234
1237 1239 1243 1261 1265 1296 1300 1302 1305 1310 1314 1315 1316 1319 1330 1336 1338 1342 1345 1353 1357
'
mkdir -p "$out"
cd "$out"
for list in train.txt test.txt; do
    [ ! -s $list ] || { echo "$0: $out/$list exists already; remove it first" >&2; exit 1; }
done
ln -sf "$jpg"/image_*.jpg .
awk -v tests="$tests" 'BEGIN {
    for (n = split(tests, number, " "); n > 0; n--) of_tests[number[n]] = 1
    for (n = 1; n <= 1360; n++) printf "image_%04d.jpg %d\n", n, (n - 1) / 80 >((n in of_tests) ? "test.txt" : "train.txt")
}'
echo "$out: 1088 photographs in train.txt, 272 in test.txt"
