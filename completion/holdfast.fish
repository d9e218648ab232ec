# Completion of holdfast(1) in fish: asks `holdfast complete` for all but files and commands.
# SPDX-License-Identifier: Apache-2.0

function __holdfast_complete
    set -l word (commandline -ct)
    set -l words (commandline -opc) (string unescape -- $word; or echo -- $word)
    set -l answers ($words[1] complete $words[2..] 2>/dev/null </dev/null)
    switch "$answers[1]"
        case \tfiles
            set -l start (string match -r '^--[^=]*=' -- $word)
            __fish_complete_path (string replace -- "$start" '' $words[-1]) | string replace -r '^' -- "$start"
        case \tcommand
            set -l end (contains -i -- -- $words)
            complete -C (string join ' ' -- (string escape -- $words[(math $end + 1)..-2]) $word)
        case '*'
            printf '%s\n' $answers
    end
end

complete -c holdfast -f -a '(__holdfast_complete)'
