#!/bin/sh
# ledger.sh: the lines of src and cuda that each capability has, beside its budget. Every file counts once.
# The status is 1 where a row is over its budget, src is over its own, or a file stands in no row or in two.
# A file of an old capability gets a pattern here, a new capability a row. A budget rises only with a line in
# docs/decisions.md, which says what the lines buy; it falls whenever code goes.
set -eu
cd "$(dirname "$0")/.."

# lines of src in all, without cuda
most=84000

# CAPABILITY|what it is for: H the mission's heart, N its users need it, c comfort|budget in lines|patterns
rows='
prototxt: reader, printer, places, suggestions|H|2433|src/nn/spec/{doc,field,kind,names,print,read,scan,suggest_field,text,text_internal,text_value}.*
net definition: rules, stages, overrides|H|781|src/nn/spec/{netdef,netstate,override}.*
.caffemodel reader|H|1058|src/nn/spec/{modelfile,proto,stored_blob}.*
old forms V0 and V1, upgrade|N|689|src/nn/spec/upgrade*.* src/app/commands/command_upgrade.c
engine seam: operators, checks|H|2778|src/nn/engine/{engine,engine_internal,image_plane,normal,op_check*,op_size,ops,roofline,tensor}.*
device: memory, copies, codecs, rules, sums|H|1515|src/base/device/{codec,device,group,half,host,host_device,kernel,owned,rule,vector}.*
--reproducible: one order of sums|H|613|src/base/device/{exact_sum,tree_sum}.* src/app/compute/grains.*
CPU engine|H|9821|src/nn/engine/cpu/*
replay engine, profiles|H|632|src/nn/engine/replay/*
CUDA engine|H|9817|cuda/*
layers|H|4546|src/nn/layers/*
net|H|3069|src/nn/net/*
input: feeder, transform, lists, HDF5, names|H|3608|src/nn/input/{bad_records,class_names,database,feeder,hdf5,image_input,image_list,list,mean_file,source,source_internal,transform,watch}.*
a new order in each epoch, reading ahead|N|270|src/nn/input/{ahead,shuffle}.*
augmentation|c|231|src/nn/input/augment.*
LMDB and LevelDB readers|N|785|src/nn/input/format/kv*.*
JPEG, PNG, WebP, Datum|N|1336|src/nn/input/format/{datum,exif,image,image_internal,jpeg,png,webp}.*
convert, mean: making data|c|1619|src/nn/convert/* src/app/commands/command_{convert,convert_images,mean}.c src/app/commands/image_stream.*
wire|H|2262|src/comm/wire/*
plan: groups, chunks, schemes, costs|H|2672|src/comm/plan/{chunks,comm,cost,deal,for_schemes,plan,plan_internal,rails,scheme,tree}.*
probe, cluster file|H|963|src/comm/plan/{cluster_file,probe,probe_serve}.*
simulator, choice of schemes|H|2393|src/comm/simulate/*
sync: life, homes, gathering, ps, allreduce|H|5628|src/comm/sync/{allreduce,alone,bucket,calls,clip,comms,direct,encode,gather*,gradient*,history,home*,node*,post,ps,scheme_registry,serve,steps,sync,sync_internal,wire_side}.*
sufficient factors|H|750|src/comm/sync/{factors,sfb}.*
low rank|H|593|src/comm/sync/{basis,lowrank}.*
Project Adam, one bit, LARS|H|384|src/comm/sync/{adam,onebit,lars}.*
exchange: ranks to a running sync|H|1520|src/comm/exchange/*
forecast, plan|H|1784|src/app/forecast/* src/app/commands/{command_plan,plan_json,plan_print}.*
libposeidon|H|1298|src/comm/library/{library,option_string,poseidon,start,state}.*
libposeidon: tensors on GPUs|H|297|src/comm/library/place.* src/base/device/module.*
snapshots in Caffe'"'"'s two forms|H|2910|src/nn/snapshot/{binary_read,binary_write,checkpoint,checkpoint_list,checksum,data_words,hdf5_read,hdf5_write,match,snapshot,snapshot_internal}.*
kept snapshots, the run and its lock|N|2705|src/app/keep/{snapshot_writer,kept_list,prefix_lock}.* src/app/keep/run*.*
weights in Caffe'"'"'s other form|N|278|src/nn/snapshot/weights.* src/app/commands/command_convert_weights.c
report|N|2055|src/app/report/{isolated,figures,lines,net_table,outputs,report,table,test_pass,words}.* src/app/say/result.c
CSV, TensorBoard|c|470|src/app/report/curves.* src/app/say/metrics.c
trace, timeline|c|1047|src/base/trace/* src/comm/timeline/*
trainer|H|4220|src/app/job/{course,job,nets,policy,rates,trainer_options}.* src/app/compute/{compute,net_exchange,place_updates}.* src/app/keep/scores.* src/app/say/{display,output,start_log,timing}.* src/app/loop/*
moving average of the weights|N|204|src/app/compute/average.*
dry run, made-up data|c|501|src/app/say/dry_run.* src/app/compute/fake_data.*
agreement of ranks|N|1215|src/app/job/agree_job.* src/app/watch/agree_signals.c src/app/commands/handshake.* src/base/util/{agree,agreement,launcher,ranks}.*
signals, deadlines|N|306|src/app/watch/{signals,deadline}.* src/app/job/ends.h
late and lost ranks, NaN|N|1058|src/app/watch/{monitor,numeric_checks,stragglers}.* src/base/util/watchdog.*
shares of the batch by speed|N|460|src/app/compute/balance.*
cores|N|385|src/app/job/cores.*
doctor, device_query|c|1269|src/app/commands/{command_doctor,command_device_query,doctor*}.*
options, help, suggestions|N|1606|src/app/commands/{foreign_options,options*,output_guard}.* src/base/util/{choice,option,suggest,units}.*
train, main|H|1049|src/app/commands/{command_train,command_version,commands,main,train_checks,train_options}.*
test, time, classify, extract, summary|N|2231|src/app/commands/{command_classify,command_extract,command_summary,command_test,command_time,model}.*
util, the rest|H|3920|src/app/report/build_info.* src/nn/spec/h5*.* src/base/util/{alloc,clock,crc32c,error,file,file_kind,finite,json,log,machine,median,owner,path,progress,rng,rng_blocks,sha256,strbuf,thread,topology,utf8,workers}.*
'

# Writes NAME|KIND|BUDGET|FILE|LINES of all files to $work/rows; fails where a file has no row, or two.
count() {
    printf '%s\n' "$rows" | while IFS='|' read -r name kind budget patterns; do
        [ -n "$name" ] || continue
        for pattern in $patterns; do
            case $pattern in
            *"{"*) # a list of names
                list=${pattern#*"{"}
                for word in $(printf '%s' "${list%%"}"*}" | tr ',' ' '); do
                    printf '%s|%s|%s|%s\n' "$name" "$kind" "$budget" "${pattern%%"{"*}$word${pattern##*"}"}"
                done ;;
            *) printf '%s|%s|%s|%s\n' "$name" "$kind" "$budget" "$pattern" ;;
            esac
        done
    done | while IFS='|' read -r name kind budget pattern; do
        for file in $pattern; do
            case $file in
            *.[ch] | *.cu | *.cuh)
                [ ! -f "$file" ] || printf '%s|%s|%s|%s|%s\n' "$name" "$kind" "$budget" "$file" "$(wc -l <"$file")" ;;
            esac
        done
    done >"$work/rows"
    find src cuda -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) ! -name '*.pb-c.*' | sort >"$work/files"
    cut -d'|' -f4 "$work/rows" | sort >"$work/named"
    uniq -d "$work/named" | sed 's/$/ is in two rows of scripts\/ledger.sh/' >"$work/faults"
    comm -23 "$work/files" "$work/named" | sed 's/$/ is in no row of scripts\/ledger.sh/' >>"$work/faults"
    [ ! -s "$work/faults" ] || { cat "$work/faults" >&2; return 1; }
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count || exit 1
awk -F'|' -v most="$most" '
    function row(has, may, name) {
        printf "%7d %7d  %s%s\n", has, may, name, (has > may ? ": OVER ITS BUDGET" : "")
        over += has > may
    }
    !($1 in lines) { order[++n] = $1; kind[$1] = $2; budget[$1] = $3 }
    { lines[$1] += $5; if ($4 ~ /^src/) { src += $5; by[$2] += $5 } }
    END {
        print "  lines  budget  capability (H: the heart, N: users need it, c: comfort)"
        for (i = 1; i <= n; i++) row(lines[order[i]], budget[order[i]], kind[order[i]] " " order[i])
        row(src, most, sprintf("src without cuda (H %d, N %d, c %d)", by["H"], by["N"], by["c"]))
        exit over > 0
    }' "$work/rows"
