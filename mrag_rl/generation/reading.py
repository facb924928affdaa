"""Prompts as a transformers model reads them: chat template, control tokens, and the room in its context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import transformers

from mrag_rl.generation import reflection
from mrag_rl.generation.likelihood import Completion
from mrag_rl.generation.prompts import (
    Prompt,
    control_tokens,
    defused,
    defused_prompt,
    make_room,
    messages,
    render,
)


class PromptReader:
    """A model's tokenizer with what is known of its context; it needs no weights, so that any process may have one.

    Attributes:
        tokenizer, context, stop: as given.
        reflects: whether the model writes Self-RAG's reflection tokens, and reads prompts in Self-RAG's form.
    """

    def __init__(
        self, tokenizer: transformers.PreTrainedTokenizerBase, context: int, *, stop: Sequence[str] = ()
    ) -> None:
        """context: the model's tokens. stop: strings that end a text and are not part of it."""
        self.tokenizer, self.context, self.stop = tokenizer, context, tuple(stop)
        added = (token.content for token in tokenizer.added_tokens_decoder.values() if token.special)
        special = {*tokenizer.all_special_tokens, *added}
        self.reflects = not tokenizer.chat_template and reflection.reflects(special)
        self._control = control_tokens(special)

    @property
    def chat(self) -> bool:
        """Whether prompts are read in the tokenizer's chat template."""
        return bool(self.tokenizer.chat_template)

    def render(self, prompt: Prompt, *, decided: bool = True) -> str:
        """The prompt as the model reads it: in its chat template if it has one, else plain or in Self-RAG's form.

        What is called as a control token is, in a text, is no such token. decided: see `reflection.render`.
        """
        prompt = defused_prompt(prompt, self._control)
        if self.reflects:
            return reflection.render(prompt, decided=decided)
        if not self.chat:
            return render(prompt)
        return str(self.tokenizer.apply_chat_template(messages(prompt), tokenize=False, add_generation_prompt=True))

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        """Whether each prompt, whole, leaves room for `max_new_tokens` in the context."""
        limit = self.context - max_new_tokens
        return [len(ids) <= limit for ids in self._token_ids([self.render(prompt) for prompt in prompts])]

    def tokenize(self, prompts: Sequence[Prompt], texts: list[str], max_new_tokens: int) -> list[list[int]]:
        """The token ids of each prompt, rendered as in `texts`, shortened if it does not fit the context."""
        ids = self._token_ids(texts)
        for i, prompt in enumerate(prompts):
            if len(ids[i]) > self.context - max_new_tokens:
                ids[i] = self._token_ids([self._shortened(prompt, max_new_tokens)])[0]
        return ids

    def tokenize_pairs(self, pairs: Sequence[tuple[Prompt, str]], max_new_tokens: int) -> list[Completion]:
        """The token ids of each prompt with a completion, the prompt shortened if they do not fit the context."""
        texts = [self.defused(text) for _, text in pairs]
        if self.reflects:  # Such a model writes a token before an answer to what was retrieved, and others after it
            starts = [reflection.RELEVANCE[0] if prompt.demonstrations else "" for prompt, _ in pairs]
            begun = [(prompt, start, text) for (prompt, _), start, text in zip(pairs, starts, texts, strict=True)]
            return self.tokenize_continuations(begun, max_new_tokens)
        endings = [text if self.chat or not text else f" {text}" for text in texts]
        items = [(prompt, "", ending) for (prompt, _), ending in zip(pairs, endings, strict=True)]
        return self._completions(items, max_new_tokens)

    def tokenize_continuations(
        self, items: Sequence[tuple[Prompt, str, str]], max_new_tokens: int, *, decided: bool = True
    ) -> list[Completion]:
        """For (prompt, beginning of its answer, what follows): the token ids of what follows, after those before it.

        The last two may have control tokens; see `defused`. Where nothing follows, its end does. A prompt is shortened
        as by `tokenize`, or so that its answer fits, if that is longer. decided: see `reflection.render`.
        """
        made = self._completions(items, max_new_tokens, decided=decided)
        return [replace(item, ended=not item.tokens) for item in made]

    def _completions(
        self, items: Sequence[tuple[Prompt, str, str]], max_new_tokens: int, *, decided: bool = True
    ) -> list[Completion]:
        """What follows the beginning of an answer, with its end; see `tokenize_continuations`."""
        asked = {prompt: self.render(prompt, decided=decided) for prompt, _, _ in items}
        before = [*dict.fromkeys([*asked.values(), *(asked[prompt] + begun for prompt, begun, _ in items)])]
        ids = dict(zip(before, self._token_ids(before), strict=True))
        whole_ids = self._token_ids([asked[prompt] + begun + text for prompt, begun, text in items])
        made = []
        for (prompt, begun, text), whole in zip(items, whole_ids, strict=True):
            context = ids[asked[prompt] + begun]
            written = len(context) - len(ids[asked[prompt]])  # tokens of the beginning
            item = Completion.after(context, whole)
            room = max(max_new_tokens, written + len(item.tokens))
            if len(item.prompt) - written + room > self.context:
                short = self._shortened(prompt, room, decided=decided) + begun
                item = Completion.after(*self._token_ids([short, short + text]))
            made.append(item)
        return made

    def defused(self, text: str) -> str:
        """A text in which what is called as a control token is, is none."""
        return defused(text, self._control)

    def texts(self, completions: Sequence[Sequence[int]]) -> list[str]:
        """The texts of completions' token ids, cut where they end."""
        return [
            self._clean(text)
            for text in self.tokenizer.batch_decode([[*ids] for ids in completions], skip_special_tokens=True)
        ]

    def _shortened(self, prompt: Prompt, room: int, *, decided: bool = True) -> str:
        """The rendered prompt, shortened so that it leaves room for so many new tokens in the context."""

        def length(prompt: Prompt) -> int:
            return len(self._token_ids([self.render(prompt, decided=decided)])[0])

        return self.render(make_room(prompt, length, self.context, room), decided=decided)

    def _token_ids(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        # A rendered chat template already contains its special tokens.
        ids: list[list[int]] = self.tokenizer(texts, add_special_tokens=not self.chat, verbose=False)["input_ids"]
        return ids

    def _clean(self, text: str) -> str:
        for stop in self.stop if self.chat else (*self.stop, "\n"):
            text = text.split(stop, 1)[0]
        return text.strip()
