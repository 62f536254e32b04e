import { ConfigError } from '../../../core';
import type { ChatTemplate } from './chat-template';
import { ASSISTANT, type ChatMessage } from './conversation';
import type { TextCodec } from './tokenizer';

/** A conversation as token ids. */
export interface Example {
  readonly ids: readonly number[];
  /** A number per token: 1 if the token belongs to an answer, else 0. */
  readonly answers: readonly number[];
}

/**
 * Turns a conversation into the token ids of the whole text that the template writes. Tokens of answers, and the token that ends
 * each answer, are marked; tokens that the template writes around an answer are not marked. An answer is the text that the
 * template writes after the text that asks for the answer. Throws: CONFIG, which names the record, if a template writes no answer
 * after its question.
 */
export function encodeExample(
  messages: readonly ChatMessage[],
  {
    template,
    codec,
    place,
  }: { readonly template: ChatTemplate; readonly codec: TextCodec; readonly place: string },
): Example {
  const text = template.render(messages, false);
  const ids = Array.from(codec.encode(text));
  const answers = new Array<number>(ids.length).fill(0);
  for (const [i, { role }] of messages.entries()) {
    if (role !== ASSISTANT) continue;
    const before = template.render(messages.slice(0, i), true);
    const through = template.render(messages.slice(0, i + 1), false);
    if (!text.startsWith(before) || !text.startsWith(through) || through.length <= before.length) {
      throw new ConfigError(
        `data: ${place}: the template ${template.name} does not write answer ${i} after the text that asks for it, so the tokens of ` +
          "the answer cannot be found; name another data.chatTemplate, such as 'chatml', or write one answer per record",
      );
    }
    // Blanks after an answer's last token belong to the template, so they are not marked.
    const end = Math.max(before.length + 1, through.trimEnd().length);
    answers.fill(
      1,
      numTokens(codec, ids, text.slice(0, before.length)),
      numTokens(codec, ids, text.slice(0, end)),
    );
  }
  return { ids, answers };
}

/** Returns how many tokens at the start of `ids` are equal to the tokens of `begin`, the beginning of the same text. */
function numTokens(codec: TextCodec, ids: readonly number[], begin: string): number {
  const own = codec.encode(begin);
  let count = 0;
  while (count < own.length && own[count] === ids[count]) count++;
  return count;
}
