"""`kvtune validate`: say everything that is wrong with a policy at once, and what is surprising about it."""

from pathlib import Path
from typing import Annotated

import typer

from kvtune_cli.exits import ExitCode
from kvtune_cli.output import one_line, problem_data, say, say_json


def validate(
    file: Annotated[Path, typer.Option("--file", "-f", help="Policy in YAML or JSON.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    standalone: Annotated[
        bool,
        typer.Option("--standalone", help="Allow what `kvtune up` accepts and a cluster refuses: addresses."),
    ] = False,
) -> None:
    """Check a policy as a cluster does: every problem with line, path, value and limit.

    Example: kvtune validate -f examples/chat.yaml
    """
    from kvtune_api.errors import Problem, SpecError
    from kvtune_api.policy import cluster_problems
    from kvtune_cli.policies import policy_of
    from kvtune_operator.advice import advice

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    try:
        policy = policy_of(file)
        warnings = advice(policy)
        problems = () if standalone else cluster_problems(policy)
    except SpecError as error:
        problems = error.problems
    if as_json:
        say_json(
            {
                "file": str(file),
                "valid": not problems,
                "problems": [problem_data(problem) for problem in problems],
                "warnings": [problem_data(warning) for warning in warnings],
            }
        )
    else:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        say(f"{file}: {count}" if problems else f"{file}: valid")
        for problem in problems:
            say(f"  {one_line(str(problem))}")
        for warning in warnings:
            say(f"  warning: {one_line(str(warning))}")
    raise typer.Exit(ExitCode.INVALID if problems else ExitCode.OK)
