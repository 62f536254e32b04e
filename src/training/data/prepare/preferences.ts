import type { FileRecord } from '../files/records';
import {
  ASSISTANT,
  type ChatMessage,
  checkedConversation,
  messagesIn,
  messagesOf,
  wrong,
} from './conversation';

/** One conversation of a pair. */
export interface PairedConversation {
  readonly messages: readonly ChatMessage[];
  /** The number of messages at the beginning that both conversations have; only answers after them count in the loss. */
  readonly numCommon: number;
}

const FORMS =
  'give prompt, chosen and rejected (texts or lists of messages), or messages: [ … ] that end with the chosen answer, and rejected_response';

/**
 * Returns the two conversations of a record, the chosen one first; null if the record has only one answer. Forms: TRL's (prompt,
 * chosen, rejected; or whole conversations as chosen and rejected), ms-swift's (a conversation, and rejected_response or
 * rejected_messages), and LLaMA-Factory's (conversations or instruction, and a message as chosen and rejected). `system` is used if
 * the record has no system message. Throws: CONFIG naming the record.
 */
export function pairOf(record: FileRecord, system: string | undefined): readonly PairedConversation[] | null {
  const pair = answersIn(record);
  if (pair === null) return null;
  const [chosen, rejected] = pair.map((messages) => checkedConversation(record, messages, system)) as [
    ChatMessage[],
    ChatMessage[],
  ]; // a pair
  const isCommon = ({ role, content }: ChatMessage, i: number): boolean =>
    rejected[i]?.role === role && rejected[i].content === content;
  const first = chosen.findIndex((message, i) => !isCommon(message, i));
  const numCommon = first < 0 ? chosen.length : first;
  if ([chosen, rejected].some((messages) => (messages[numCommon]?.role ?? ASSISTANT) !== ASSISTANT))
    throw wrong(
      record.place,
      `has a chosen and a rejected conversation that differ in message ${numCommon}, which is no answer`,
      'give both the same messages up to the answer',
    );
  return [
    { messages: chosen, numCommon },
    { messages: rejected, numCommon },
  ];
}

/** Returns the chosen and the rejected conversation; null if one of them is missing. */
function answersIn({ place, values }: FileRecord): readonly [ChatMessage[], ChatMessage[]] | null {
  const { chosen, rejected, prompt, rejected_response: response, rejected_messages: others } = values;
  if (chosen !== undefined || rejected !== undefined) {
    if (isMissing(chosen) || isMissing(rejected)) return null;
    // Beside a list of messages as prompt, a list is always the answer. Source: TRL's maybe_extract_prompt.
    const isWhole = !Array.isArray(prompt) && isConversation(place, chosen);
    const before = isWhole ? [] : beforeAnswer(place, values, prompt);
    return [
      [...before, ...answerOf(place, 'chosen', chosen, before)],
      [...before, ...answerOf(place, 'rejected', rejected, before)],
    ];
  }
  const whole = messagesIn(place, values, FORMS);
  if (!isMissing(others)) return [whole, messagesOf(place, 'rejected_messages', others)];
  if (isMissing(response)) return null;
  return [whole, [...whole.slice(0, -1), ...answerOf(place, 'rejected_response', response, whole)]];
}

/** Whether an answer is a whole conversation: a list that begins with a question, as in ultrafeedback_binarized. */
function isConversation(place: string, answer: unknown): boolean {
  return Array.isArray(answer) && messagesOf(place, 'chosen', answer)[0]?.role !== ASSISTANT;
}

/** Returns the messages before the answers; none if the record has no prompt. */
function beforeAnswer(place: string, values: FileRecord['values'], prompt: unknown): ChatMessage[] {
  if (typeof prompt === 'string') return [{ role: 'user', content: prompt }];
  if (!isMissing(prompt)) return messagesOf(place, 'prompt', prompt);
  const { messages, conversations, instruction, query } = values;
  if ([messages, conversations, instruction, query].every(isMissing)) return [];
  // The record's own answer, if a form needs one, is replaced by the two others.
  const conversation = messagesIn(place, { ...values, output: '', response: '' }, FORMS);
  return isMissing(messages ?? conversations) ? conversation.slice(0, -1) : conversation;
}

/** Returns an answer as messages: a text, a message, or a list of messages. */
function answerOf(
  place: string,
  name: string,
  answer: unknown,
  before: readonly ChatMessage[],
): ChatMessage[] {
  if (typeof answer !== 'string') return messagesOf(place, name, Array.isArray(answer) ? answer : [answer]);
  if (before.length > 0) return [{ role: ASSISTANT, content: answer }];
  throw wrong(place, `has a text as ${name}, and no prompt`, FORMS);
}

function isMissing(value: unknown): boolean {
  return (
    value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)
  );
}
