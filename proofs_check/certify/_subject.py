"""Where models to certify come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constructions import load_grid_copier
from engine import CopySource, Transformer, load_run, load_weights
from proofs_check.certify._exact_model import require_covered, template_of
from proofs_check.certify._file import CONSTRUCTION, load_one_layer, save_subject
from theory import CopyTask, InputError, Template, trained_task


@dataclass(frozen=True)
class Subject:
    """A model to certify.

    Attributes:
        model: as stored, in the dtype it is stored in.
        task: the layout with the names of its tokens, where they have names.
        template: the tokens of the prompt with the positions that the model gives them.
        name: for file names.
    """

    model: Transformer
    task: CopyTask | None
    template: Template
    name: str

    def token(self, token: int) -> str:
        """Name of a token."""
        if self.task is not None:
            return self.task.names[token]
        return str(self.template.data.index(token)) if token in self.template.data else f"token {token}"

    def output(self, output: int) -> str:
        """Name of an output."""
        return self.token(output) if self.model.config.outputs != 2 else str(output)

    def __repr__(self) -> str:
        config, encoding = self.model.config, type(self.model.block(0).attention.encoding).__name__
        shape = f"{config.vocabulary_size} tokens, width {config.model_width}, {config.layer(0)[0]} heads, {encoding}"
        prompt = f"a = {len(self.template.prefix)}, b = {len(self.template.infix)}"
        return f"<Subject {self.name}: {shape}; {prompt}>"


def load(source: Path | str | Transformer, template: Template | None = None) -> Subject:
    """A one-layer model to certify.

    Args:
        source: a run directory or its weights file, a weights file of `save` or of `copycert certify --out`, one of a
            2D-RoPE construction, or a transformer of the engine.
        template: the prompt, where it is not the one that the source tells; a transformer tells none, and is taken to
            be trained on copycert's own layout.

    Raises:
        InputError: nothing of the kind, damaged, another task than copying, or a part that is not covered, named.
    """
    if isinstance(source, Transformer):
        task = None if template is not None else trained_task()
        return _subject(source, task, template, "model")
    path = Path(source)
    if not path.exists():
        raise InputError("RUN_OR_FILE", str(path), "a run directory or a weights file that is there")
    name = path.resolve().name if path.is_dir() else path.stem
    if path.is_file():
        construction = load_weights(path)[1].get("construction")
        if construction == "grid-copier":
            copier = load_grid_copier(path)
            return _subject(copier.model, None if template else copier.task, template, name)
        if construction == CONSTRUCTION:
            model, stored = load_one_layer(path)
            return _subject(model, None, template or stored, name.removesuffix("-weights"))
    config, model = load_run(path)
    data = config.data.source()
    if not isinstance(data, CopySource):
        raise InputError("RUN", config.data.task, "a run of the copy task")
    return _subject(model, None if template else data.task, template, name)


def _subject(model: Transformer, task: CopyTask | None, template: Template | None, name: str) -> Subject:
    require_covered(model)
    if template is None:
        if task is None:
            raise InputError("template", None, "given: this source tells no prompt")
        template = template_of(model, task)
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name).lstrip(".-_")
    return Subject(model, task, template, plain or "model")


def save(source: Subject | Transformer, path: Path | str, template: Template | None = None) -> str:
    """Write a weights file that `load` and `copycert certify` take; returns the SHA-256 of the file.

    The tensors stand there bit by bit, with their own digest, beside the prompt and every number that the model's
    answers depend on.

    Raises:
        InputError: as `load`.
        OSError: the file cannot be written.
    """
    subject = source if isinstance(source, Subject) and template is None else None
    if subject is None:
        subject = load(source.model if isinstance(source, Subject) else source, template)
    return save_subject(Path(path), subject.model, subject.template)
