#!/bin/sh
# make_completion.sh POSEIDON: bash's completion on standard output. The commands' own --help is its source, so that the
# two cannot differ.
set -eu
poseidon=$1
commands=$("$poseidon" help | sed -n 's/^  \([a-z_]*\)  *.*/\1/p')

# "--x= --y" of a command; options that take a value end in "="
options() {
    # shellcheck disable=SC2086 # two words are a command of a command
    "$poseidon" $1 --help | sed -n 's/^  --\([a-z-]*\)\(\[\{0,1\}=\{0,1\}\).*/\1\2/p' | sed 's/\[=/ --&/; s/\[=/=/; s/^/--/' |
        tr '\n' ' ' | sed 's/--\([a-z-]*\) --=/--\1 --\1=/g; s/ $//'
}

# lines "COMMAND --x) words" of the words that a value may be: --help lists them as "--x=a|b", or the message about a
# wrong one does. What takes any value gets to the unknown option behind it, and nothing runs.
words() {
    # shellcheck disable=SC2086
    "$poseidon" $1 --help | sed -n 's/^  --\([a-z-]*\)\[\{0,1\}=\([^] ]*\).*/\1 \2/p' | while read -r option values; do
        case $values in
        *'|'*) ;;
        N | X | LIST | FILE*) values='' ;;
        *) values=$("$poseidon" $1 "--$option=?" '--?' 2>&1 </dev/null |
            sed -n "s/.*--$option=?: expected \(one of \)\{0,1\}\([A-Za-z0-9_]*\(\(, \| or \)[A-Za-z0-9_]*\)*\)\$/\2/p") ;;
        esac
        case $values in
        '' | *LIST* | *[!A-Za-z0-9_,\ \|]*) ;;
        *) printf "        '%s --%s') words='%s' ;;\n" "$1" "$option" "$(echo "$values" | sed 's/, \| or \||/ /g')" ;;
        esac
    done
}
kinds=$("$poseidon" convert --help | sed -n 's/^usage: poseidon convert \([a-z]*\) .*/\1/p' | tr '\n' ' ')
listed=$(echo "$commands" | grep -vx help; printf 'convert images\nconvert weights')

cat <<END
# bash completion of poseidon; made by scripts/make_completion.sh from its --help.
_poseidon() {
    local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} command='' i words=''
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ \${COMP_WORDS[i]} == poseidon || \${COMP_WORDS[i]} == */poseidon ]] && command='' && continue
        [[ -z \$command && \${COMP_WORDS[i]} != -* ]] && command=\${COMP_WORDS[i]}
    done
    [[ \$command == convert && " \${COMP_WORDS[*]} " =~ ' '(images|weights)' ' ]] && command="convert \${BASH_REMATCH[1]}"
    if [[ \$word == = ]]; then
        word=''
    elif [[ \$before == = ]]; then
        before=\${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ \$word == -* || -z \$command ]]; then
        before=''
    fi
    case "\$command \$before" in
$(echo "$listed" | while read -r command; do words "$command"; done)
    esac
    if [[ -n \$words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "\$words" -- "\$word")
        return
    fi
    [[ -z \$command ]] && words='$(echo "$commands" | tr '\n' ' ' | sed 's/ $//') --help --version'
    if [[ \$word == -* ]]; then
        case \$command in
$(echo "$listed" | while read -r command; do printf "        '%s') words='%s' ;;\n" "$command" "$(options "$command")"; done)
        esac
    elif [[ \$command == help ]]; then
        words='$(echo "$commands" | tr '\n' ' ')layers tuning'
    elif [[ \${COMP_WORDS[COMP_CWORD - 1]} == convert ]]; then
        words='$kinds'
    fi
    if [[ -n \$words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "\$words" -- "\$word")
        [[ \${COMPREPLY[*]} == *= ]] && compopt -o nospace
    else
        compopt -o default
    fi
}
complete -F _poseidon poseidon
END
