"""Jinja2 set up once: strict about unknown names, quoting by itself, a user's folder searched first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import (
    Environment,
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    select_autoescape,
)

from sgdeploy.paths import data_dir, is_folder
from sgdeploy.render import quote


@dataclass(frozen=True)
class Templates:
    """The compiled templates of one folder setting."""

    process: Template
    activate: Template
    env: Template
    start: Template
    stop: Template
    readme: Template


@lru_cache(maxsize=4)
def compiled(folder: Path | None) -> Templates:
    """Compile all templates.

    Args:
        folder: searched first; what is not in it comes from the shipped ``templates/``.

    Raises:
        RenderError: the folder is missing or a template is broken, with its file and line.
    """
    if folder is not None and not is_folder(folder):
        raise quote.RenderError(
            f"{folder} is not a folder of templates",
            hint="name a folder that holds process.sh.j2 or another of our templates",
        )
    shipped = data_dir("templates")
    environment = Environment(
        loader=FileSystemLoader([shipped] if folder is None else [folder, shipped]),
        undefined=StrictUndefined,
        finalize=quote.final,
        # HTML escaping would spoil scripts; what escapes here is `finalize`, and it cannot be switched off.
        autoescape=select_autoescape(enabled_extensions=(), default=False),
        # Bash counts with "${#list[@]}", which the usual delimiters would take for a comment.
        comment_start_string="{##",
        comment_end_string="##}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters.update(plain=quote.plain, path=quote.path)
    parts = ("process.sh.j2", "partials/activate.sh.j2", "partials/env.sh.j2")
    wholes = ("host.sh.j2", "stop.sh.j2", "readme.txt.j2")
    try:
        return Templates(*(environment.get_template(name) for name in (*parts, *wholes)))
    except TemplateError as error:
        raise _explained(error) from error


def fill(template: Template, values: Mapping[str, Any]) -> str:
    """Fill one template.

    Raises:
        RenderError: it names something that does not exist, or a value cannot be quoted.
    """
    try:
        return template.render(values)
    except TemplateError as error:
        raise _explained(error, template.filename) from error


def _explained(error: TemplateError, file: str | None = None) -> quote.RenderError:
    """Turn an error of Jinja2 into one that says where and what."""
    if isinstance(error, TemplateSyntaxError):
        return quote.RenderError(f"{error.filename}:{error.lineno}: {error.message}")
    if isinstance(error, TemplateNotFound):
        return quote.RenderError(f"the template {error.name} is missing", hint="reinstall sgdeploy")
    return quote.RenderError(
        f"{file or 'template'}: {error.message}", hint="docs/scripts.md lists what a template may name"
    )
