# Completion of holdfast(1) in bash: asks `holdfast complete` for all but files and commands.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# The place of the command after "--", among the words as readline splits them.
_holdfast_command_at() {
    local i
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} != -- ]] || break
    done
    echo $((i + 1))
}

_holdfast() {
    local cur words cword answers answer='' word start
    _get_comp_words_by_ref -n =: cur words cword || return
    mapfile -t answers < <("${words[0]/#\~\//$HOME/}" complete "${words[@]:1:cword-1}" \
        "${cur//\\/}" 2>/dev/null </dev/null)
    case ${answers[0]-} in
    $'\tfiles')
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "${cur#--*=}")
        return
        ;;
    $'\tcommand')
        _command_offset "$(_holdfast_command_at)"
        return
        ;;
    esac
    start=${cur%"${cur##*[=:]}"} # which readline takes for words before this one
    COMPREPLY=()
    for answer in "${answers[@]}"; do
        word=${answer%%$'\t'*}
        word=${word#"${start//\\/}"}
        [[ ! $word ]] || printf -v word %q "$word" # %q makes '' of nothing
        COMPREPLY+=("$word")
    done
    [[ ${answer%%$'\t'*} != *: ]] || compopt -o nospace
}

complete -F _holdfast holdfast
