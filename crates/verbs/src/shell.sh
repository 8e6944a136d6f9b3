#!/bin/sh
# Becomes an interactive shell whose prompt says which job it is, and how much time is left.
shell=$1
name=${shell##*/}

# Seconds since 1970 at which the time is over, for shells without a calendar. A file beside it says
# so when the limit was changed.
if [ -n "$GPOOL_DEADLINE" ]; then
    GPOOL_DEADLINE_AT=$(date -d "$GPOOL_DEADLINE" +%s 2>/dev/null)
    export GPOOL_DEADLINE_AT
fi

# What is left, as the prompt says it: job 17, 1h05m left.
cat > "$GPOOL_DIR/left" <<'END'
at=$GPOOL_DEADLINE_AT
[ -r "$GPOOL_DIR/deadline" ] && read -r at < "$GPOOL_DIR/deadline"
[ "$at" = none ] && at=
if [ -z "$at" ]; then
    printf 'job %s' "$GPOOL_JOB_ID"
else
    left=$((at - $(date +%s)))
    [ "$left" -lt 0 ] && left=0
    if [ "$left" -ge 3600 ]; then
        printf 'job %s, %dh%02dm left' "$GPOOL_JOB_ID" $((left / 3600)) $((left / 60 % 60))
    elif [ "$left" -ge 60 ]; then
        printf 'job %s, %dm left' "$GPOOL_JOB_ID" $((left / 60))
    else
        printf 'job %s, %ds left' "$GPOOL_JOB_ID" "$left"
    fi
fi
END

case $name in
bash)
    cat > "$GPOOL_DIR/bashrc" <<'END'
[ -r /etc/bash.bashrc ] && . /etc/bash.bashrc
[ -r ~/.bashrc ] && . ~/.bashrc
PS1='($(/bin/sh "$GPOOL_DIR/left")) '"$PS1"
END
    exec "$shell" --rcfile "$GPOOL_DIR/bashrc" -i
    ;;
zsh)
    mkdir -p "$GPOOL_DIR/zsh"
    cat > "$GPOOL_DIR/zsh/.zshenv" <<'END'
[ -r "${GPOOL_ZDOTDIR:-$HOME}/.zshenv" ] && . "${GPOOL_ZDOTDIR:-$HOME}/.zshenv"
END
    cat > "$GPOOL_DIR/zsh/.zshrc" <<'END'
ZDOTDIR=${GPOOL_ZDOTDIR:-$HOME}
[ -r "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"
setopt PROMPT_SUBST
PROMPT='($(/bin/sh "$GPOOL_DIR/left")) '"$PROMPT"
END
    GPOOL_ZDOTDIR=$ZDOTDIR ZDOTDIR=$GPOOL_DIR/zsh exec "$shell" -i
    ;;
fish)
    exec "$shell" -i -C 'functions -c fish_prompt gpool_prompt
function fish_prompt
    printf "(%s) " (/bin/sh "$GPOOL_DIR/left")
    gpool_prompt
end'
    ;;
*)
    PS1='($(/bin/sh "$GPOOL_DIR/left")) $ ' exec "$shell" -i
    ;;
esac
