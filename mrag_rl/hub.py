"""Selectors and databases on the Hugging Face hub: model card, upload and download (extra: encode, of which
huggingface_hub is used).

Only the files of a selector or a database are ever sent or fetched, whatever else lies beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from mrag_rl import __version__
from mrag_rl.errors import InputError
from mrag_rl.extras import require
from mrag_rl.io import StrPath, read_text
from mrag_rl.selector_files import CARD_FILE, LOADED_FILES, PICKLE_ENDINGS, copy_files
from mrag_rl.selector_info import SelectorInfo

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

Kind = Literal["model", "dataset"]
"""Of a repository: a selector's is a model, a database's a dataset."""
LIBRARY = "mrag-rl"
LOADED_HERE = 'Selector.from_pretrained(".")'
"""How a card loads the selector that it lies beside. In the card of a repository, that is the repository's name."""
_TAGS = ("m-rag", "partition-selection", "reinforcement-learning", "retrieval-augmented-generation")
_LOG_IN = "log in (hf auth login), or set HF_TOKEN"


def model_card(text: str, info: SelectorInfo, *, name: str | None = None, results: Sequence[EvalResult] = ()) -> str:
    """A card with the metadata by which the hub finds and shows a selector, in YAML before the text.

    Args:
        text: Markdown.
        info: what the selector was trained on and for. Its encoder is the base model, if that is on the hub.
        name: of the model that the results belong to.
        results: scores of the selector's run.

    Raises MissingExtra without the extra `encode`.
    """
    require("encode", "huggingface_hub", by="a model card of the hub")
    from huggingface_hub import ModelCard, ModelCardData

    from mrag_rl.models.names import hub_name

    encoder = hub_name(info.encoder)
    data = ModelCardData(
        base_model=encoder if encoder is not None and "/" in encoder else None,  # without an owner, it may be an alias
        eval_results=list(results) or None,
        library_name=LIBRARY,
        model_name=name if results else None,
        tags=[*_TAGS, *([] if ":" in info.task else [info.task.replace("_", "-")])],
    )
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}"))


def upload(
    folder: Path,
    repo_id: str,
    info: SelectorInfo,
    *,
    commit_message: str,
    private: bool | None = None,
    token: str | None = None,
    branch: str | None = None,
) -> str:
    """Upload a selector's folder in one commit; returns the commit's address. See `Selector.push_to_hub`."""
    require("encode", "huggingface_hub", by="sharing a selector")
    card = read_text(folder / CARD_FILE) if (folder / CARD_FILE).is_file() else ""
    if not card.startswith("---"):
        card = model_card(card, info)

    def write(target: Path, repo_id: str) -> None:
        copy_files(folder, target)
        text = card.replace(LOADED_HERE, f'Selector.from_pretrained("{repo_id}")')
        (target / CARD_FILE).write_text(text, encoding="utf-8")

    return send(
        write, repo_id, "model", commit_message=commit_message, private=private, token=token, branch=branch
    )  # fmt: skip


def send(
    write: Callable[[Path, str], None],
    repo_id: str,
    kind: Kind,
    *,
    commit_message: str,
    private: bool | None = None,
    token: str | None = None,
    branch: str | None = None,
) -> str:
    """Upload files in one commit to a repository, which is created if there is none; returns the commit's address.

    write: writes them to a folder, given the repository's full name. Raises InputError; see `Selector.push_to_hub`.
    """
    from huggingface_hub import HfApi

    api = HfApi(token=token, library_name=LIBRARY, library_version=__version__)
    with TemporaryDirectory() as temporary, _one_line(repo_id, branch):
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True, repo_type=kind).repo_id
        if private and not api.repo_info(repo_id, repo_type=kind).private:
            raise InputError(
                f"{repo_id}: there already, and public: make it private on its page, or choose another name"
            )
        if branch is not None:
            api.create_branch(repo_id, branch=branch, exist_ok=True, repo_type=kind)
        write(Path(temporary), repo_id)
        commit = api.upload_folder(
            repo_id=repo_id, folder_path=temporary, revision=branch, commit_message=commit_message, repo_type=kind
        )
    return str(commit.commit_url)


def download(
    repo_id: str,
    kind: Kind = "model",
    files: Sequence[str] = LOADED_FILES,
    *,
    revision: str | None = None,
    cache_dir: StrPath | None = None,
    token: str | bool | None = None,
    force_download: bool = False,
    local_files_only: bool = False,
) -> Path:
    """The folder with some files of a repository and its card, not checked yet, in huggingface_hub's cache.

    Raises InputError if there is no such repository or revision, it cannot be reached, it lacks one of the files, or it
    has a pickle or archive; then nothing is fetched.
    """
    require("encode", "huggingface_hub", by="what is on the hub")
    from huggingface_hub import HfApi, is_offline_mode, snapshot_download

    with _one_line(repo_id, revision):
        if not (local_files_only or is_offline_mode()):
            api = HfApi(token=token, library_name=LIBRARY, library_version=__version__)
            info = api.model_info if kind == "model" else api.dataset_info
            siblings = info(repo_id, revision=revision).siblings or []
            _check_names(repo_id, files, [sibling.rfilename for sibling in siblings])
        folder = snapshot_download(
            repo_id,
            repo_type=kind,
            revision=revision,
            cache_dir=None if cache_dir is None else Path(cache_dir),
            token=token,
            force_download=force_download,
            local_files_only=local_files_only,
            allow_patterns=[*files, CARD_FILE],
            library_name=LIBRARY,
            library_version=__version__,
        )
    return Path(folder)


def _check_names(repo_id: str, needed: Sequence[str], names: Sequence[str]) -> None:
    """Raises InputError for a repository with these files that lacks one, or that has a pickle or archive."""
    for name in needed:
        if name not in names:
            raise InputError(f"{repo_id}: no {name} in it: give a repository that mrag-rl push made")
    for name in names:
        if name.lower().endswith(PICKLE_ENDINGS):
            raise InputError(
                f"{repo_id}: {name} is a pickle or archive, which could run code when loaded: nothing was downloaded; "
                "ask its owner to remove it"
            )


@contextmanager
def _one_line(repo_id: str, revision: str | None) -> Iterator[None]:
    """Turn what huggingface_hub raises into an InputError that says what to do."""
    from huggingface_hub import errors

    try:
        yield
    except InputError:
        raise
    except errors.HFValidationError as error:
        raise InputError(f"{repo_id[:100]!r}: no such folder, and no name of a repository (OWNER/NAME)") from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"{repo_id}: no revision {revision!r}: give a branch, a tag or a commit of it") from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(f"{repo_id}: no such repository, or it is private: check its name; {_LOG_IN}") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status == 401:
            raise InputError(f"{repo_id}: the hub knows no token of yours: {_LOG_IN}") from error
        if status == 403:
            raise InputError(
                f"{repo_id}: your token does not allow this: use one that may write there, or a repository of your own"
            ) from error
        raise InputError(f"{repo_id}: the hub answered {status} ({error.server_message or error})") from error
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as error:
        raise InputError(
            f"{repo_id}: not downloaded before, and the hub is not to be asked or not to be reached: go online, unset "
            "HF_HUB_OFFLINE, or give a folder"
        ) from error
    except Exception as error:  # what is left is of a dozen unrelated kinds: no network, a certificate, a full disk
        raise InputError(f"{repo_id}: {type(error).__name__}: {error}; try again, online") from error
