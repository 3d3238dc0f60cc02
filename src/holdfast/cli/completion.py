"""`holdfast completion`: the script that teaches a shell to complete our command lines.

click makes the scripts; keys are not completed, since that would ask a server on every tab.
"""

import click

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_HOLDFAST_COMPLETE"


def completion(shell: str) -> None:
    """Print the script that completes our command lines in a shell.

    \b
    bash: holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
    zsh:  holdfast completion zsh > "${fpath[1]}/_holdfast"
    fish: holdfast completion fish > ~/.config/fish/completions/holdfast.fish
    """
    click.echo(script(shell))


def script(shell: str) -> str:
    """Write the script for a shell."""
    from click.shell_completion import get_completion_class

    from holdfast.cli.main import holdfast

    found = get_completion_class(shell)
    assert found is not None
    made = found(holdfast, {}, "holdfast", VARIABLE)
    return made.source_template % made.source_vars()


def completion_command() -> click.Command:
    """Build the click command."""
    return click.Command(
        "completion",
        params=[click.Argument(["shell"], type=click.Choice(SHELLS))],
        callback=completion,
        help=completion.__doc__,
    )
