#!/bin/sh
# ledger.sh [--update]: what each capability costs in lines of src and cuda, every file counted once, as the table of
# HACKING.md. --update writes that table. A file that no row names, or that two rows name, is an error: a new capability
# gets a row, and a file of an old one a pattern.
set -eu
cd "$(dirname "$0")/.."

# CAPABILITY|what it is for: H the mission's heart, N its users need it, c comfort|patterns
rows='
prototxt: reader, printer, places, suggestions|H|src/spec/{doc,field,kind,names,print,read,scan,suggest_field,text,text_internal,text_value}.*
net definition: rules, stages, overrides|H|src/spec/{netdef,netstate,override}.*
.caffemodel reader|H|src/spec/{modelfile,proto,stored_blob}.*
old forms V0 and V1, upgrade|N|src/spec/upgrade*.* src/commands/command_upgrade.c
engine seam: operators, checks, rules, codecs|H|src/engine/{codec,engine,engine_internal,group,half,host,host_engine,image_plane,kernel,normal,op_check*,op_size,ops,owned,roofline,rule,tensor,vector}.*
--reproducible: one order of sums|H|src/engine/{exact_sum,tree_sum}.* src/train/{grains,processors}.*
CPU engine|H|src/engine/cpu/*
replay engine, profiles|H|src/engine/replay/*
CUDA engine|H|cuda/*
layers|H|src/layers/*
net|H|src/net/*
input: feeder, transform, lists, HDF5, names|H|src/input/{bad_records,class_names,database,feeder,hdf5,image_input,image_list,list,mean_file,source,source_internal,transform,watch}.*
a new order in each epoch, reading ahead|N|src/input/{ahead,shuffle}.*
augmentation|c|src/input/augment.*
LMDB and LevelDB readers|N|src/input/format/kv*.*
JPEG, PNG, WebP, Datum|N|src/input/format/{datum,exif,image,image_internal,jpeg,png,webp}.*
convert, mean: making data|c|src/convert/* src/commands/command_{convert,convert_images,mean}.c
wire|H|src/wire/*
plan: groups, chunks, schemes, costs|H|src/plan/{chunks,comm,cost,deal,for_schemes,plan,plan_internal,rails,scheme,tree}.*
probe, cluster file|H|src/plan/{cluster_file,probe,probe_serve}.*
simulator, choice of schemes|H|src/simulate/*
sync: life, homes, gathering, ps, allreduce|H|src/sync/{allreduce,alone,bucket,calls,clip,comms,direct,encode,gather*,gradient*,history,home*,node*,post,ps,scheme_registry,serve,steps,sync,sync_internal,wire_side}.*
sufficient factors|H|src/sync/{factors,sfb}.*
low rank|H|src/sync/{basis,lowrank}.*
Project Adam, one bit, LARS|H|src/sync/{adam,onebit,lars}.*
exchange: ranks to a running sync|H|src/exchange/*
forecast, plan|H|src/forecast/* src/commands/{command_plan,plan_json,plan_print}.*
libposeidon|H|src/library/{library,option_string,poseidon,start,state}.*
libposeidon: tensors on GPUs|H|src/library/place.* src/engine/module.*
snapshots in Caffe'"'"'s two forms|H|src/snapshot/{binary_read,binary_write,checkpoint,checkpoint_list,checksum,data_words,hdf5_read,hdf5_write,match,snapshot,snapshot_internal}.*
kept snapshots, the run and its lock|N|src/snapshot/{snapshot_writer,kept_list,prefix_lock,run_file}.* src/train/run*.*
weights in other forms|N|src/snapshot/{safetensors,weights}.* src/commands/command_convert_weights.c
report|N|src/report/{isolated,figures,lines,net_table,outputs,report,table,test_pass,words}.* src/train/result.c
CSV, TensorBoard|c|src/report/curves.* src/train/metrics.c
trace, timeline|c|src/trace/* src/timeline/*
trainer|H|src/train/{compute,course,job,loop,net_exchange,nets,output,parts,place_updates,policy,rates,scores,start_log,test,timing,trainer}.*
moving average of the weights|N|src/train/average.*
dry run, made-up data|c|src/train/{dry_run,fake_data}.*
agreement of ranks|N|src/train/agree_*.* src/util/{agree,agreement,handshake,ranks}.*
signals, deadlines|N|src/train/{signals,deadline}.*
late and lost ranks, NaN, damaged records|N|src/train/{data_notices,monitor,numeric_checks,stragglers}.* src/util/watchdog.*
shares of the batch by speed|N|src/train/balance.*
cores|N|src/train/cores.*
doctor, device_query|c|src/commands/{command_doctor,command_device_query,doctor*}.*
options, help, suggestions|N|src/commands/{foreign_options,options*,output_guard}.* src/util/{choice,option,suggest,units}.*
train, main|H|src/commands/{command_train,command_version,commands,main,train_checks,train_options}.*
test, time, classify, extract, summary|N|src/commands/{command_classify,command_extract,command_summary,command_test,command_time,data_pace,model,scaling}.*
util, the rest|H|src/util/{alloc,build_info,clock,error,file,file_kind,finite,h5,json,log,machine,median,owner,path,progress,rng,rng_blocks,sha256,strbuf,thread,topology,utf8,workers}.*
'

# lines of what `rows` says, or the fault
table() {
    printf '%s\n' "$rows" | while IFS='|' read -r name kind patterns; do
        [ -n "$name" ] || continue
        for pattern in $patterns; do
            case $pattern in
            *"{"*) # a list of names
                list=${pattern#*"{"}
                for word in $(printf '%s' "${list%%"}"*}" | tr ',' ' '); do
                    printf '%s|%s|%s\n' "$name" "$kind" "${pattern%%"{"*}$word${pattern##*"}"}"
                done ;;
            *) printf '%s|%s|%s\n' "$name" "$kind" "$pattern" ;;
            esac
        done
    done | while IFS='|' read -r name kind pattern; do
        for file in $pattern; do
            case $file in
            *.[ch] | *.cu | *.cuh) [ ! -f "$file" ] || printf '%s|%s|%s|%s\n' "$name" "$kind" "$file" "$(wc -l <"$file")" ;;
            esac
        done
    done >"$work/rows"
    find src cuda -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) ! -name '*.pb-c.*' | sort >"$work/files"
    cut -d'|' -f3 "$work/rows" | sort >"$work/named"
    uniq -d "$work/named" | sed 's/$/ is in two rows of scripts\/ledger.sh/' >"$work/faults"
    comm -23 "$work/files" "$work/named" | sed 's/$/ is in no row of scripts\/ledger.sh/' >>"$work/faults"
    if [ -s "$work/faults" ]; then
        cat "$work/faults" >&2
        return 1
    fi
    awk -F'|' '
        !($1 in lines) { order[++n] = $1; kind[$1] = $2 }
        { lines[$1] += $4; if ($3 ~ /^src/) { src += $4; by[$2] += $4 } }
        END {
            print "| capability | | lines |"
            print "|---|---|---|"
            for (i = 1; i <= n; i++) printf "| %s | %s | %d |\n", order[i], kind[order[i]], lines[order[i]]
            printf "| src in all, without cuda | heart %d, needed %d, comfort %d | %d |\n", by["H"], by["N"], by["c"], src
        }' "$work/rows"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
table >"$work/table" || exit 1
if [ "${1:-}" = --update ]; then
    awk -v table="$work/table" '
        /^### Ledger/ { print; inside = 1; next }
        inside && /^\| capability/ { while ((getline line <table) > 0) print line; skips = 1; next }
        skips && /^\|/ { next }
        { skips = 0; print }' HACKING.md >"$work/hacking"
    cat "$work/hacking" >HACKING.md
else
    cat "$work/table"
fi
