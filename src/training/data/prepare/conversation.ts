import { ConfigError, ownValue } from '../../../core';
import type { FileRecord } from '../files/records';

/** A message of a conversation, in the form that chat templates read. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/** The role whose messages are answers. */
export const ASSISTANT = 'assistant';

/** The names that templates use for the roles in ShareGPT's files. */
const ROLES: Readonly<Record<string, string>> = {
  human: 'user',
  gpt: ASSISTANT,
  bot: ASSISTANT,
  model: ASSISTANT,
};

const FORMS =
  'give messages: [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}], or instruction, input and output, ' +
  'or query and response';

/**
 * Returns the messages of a record, in the forms that ms-swift and LLaMA-Factory read: messages (or conversations), instruction with
 * input and output (Alpaca), or query and response. Records of the last two forms may have system and history. `system` is used
 * if the record has no system message. Throws: CONFIG naming the record.
 */
export function conversationOf(record: FileRecord, system: string | undefined): ChatMessage[] {
  return checkedConversation(record, messagesIn(record.place, record.values), system);
}

/** Returns a record's messages with its system message, or with `system`. Throws: CONFIG unless they begin with a user and end with an answer. */
export function checkedConversation(
  { place, values }: FileRecord,
  ownMessages: readonly ChatMessage[],
  system: string | undefined,
): ChatMessage[] {
  const systemText = values.system ?? system;
  const hasSystem = ownMessages[0]?.role === 'system';
  const messages =
    hasSystem || systemText === undefined || systemText === null || systemText === ''
      ? [...ownMessages]
      : [{ role: 'system', content: textOf(place, 'system', systemText) }, ...ownMessages];
  if (messages.at(-1)?.role !== ASSISTANT)
    throw wrong(place, 'does not end with an answer of the assistant', 'add the answer, or omit the record');
  if (messages.find(({ role }) => role !== 'system')?.role === ASSISTANT)
    throw wrong(place, 'begins with an answer of the assistant', 'begin with a message of the user');
  return messages;
}

/** Returns the messages of a record, without its system message. Throws: CONFIG with the `forms` that a record may have. */
export function messagesIn(place: string, values: FileRecord['values'], forms = FORMS): ChatMessage[] {
  const { messages, conversations, instruction, input, output, query, response } = values;
  const list = messages ?? conversations;
  if (list !== undefined) {
    if (!Array.isArray(list) || list.length === 0) throw wrong(place, 'has no list of messages', forms);
    return messagesOf(place, '', list);
  }
  const isAlpaca = instruction !== undefined;
  const [question, answer] = isAlpaca ? [instruction, output] : [query, response];
  if (question === undefined || answer === undefined) {
    const keys = Object.keys(values).join(', ') || 'nothing';
    throw wrong(place, `has the keys ${keys}, which are no conversation`, forms);
  }
  const questionText = textOf(place, isAlpaca ? 'instruction' : 'query', question);
  const more = isAlpaca && input !== undefined && input !== null ? textOf(place, 'input', input) : '';
  return [
    ...historyOf(place, values.history),
    { role: 'user', content: more === '' ? questionText : `${questionText}\n${more}` },
    { role: ASSISTANT, content: textOf(place, isAlpaca ? 'output' : 'response', answer) },
  ];
}

/** Returns the messages of a history, which is a list of pairs of a question and an answer. */
function historyOf(place: string, history: unknown): ChatMessage[] {
  if (history === undefined || history === null) return [];
  const pairs: readonly unknown[] = Array.isArray(history) ? history : [history];
  return pairs.flatMap((pair): ChatMessage[] => {
    if (!Array.isArray(pair) || pair.length !== 2)
      throw wrong(place, 'has a history that is no list of pairs', 'write history: [["question", "answer"]]');
    return [
      { role: 'user', content: textOf(place, 'history', pair[0]) },
      { role: ASSISTANT, content: textOf(place, 'history', pair[1]) },
    ];
  });
}

/** Returns the messages of a list; `name` is the list's key in the record, or '' if the list is the whole conversation. */
export function messagesOf(place: string, name: string, list: unknown): ChatMessage[] {
  const ofList = name === '' ? '' : ` of ${name}`;
  if (!Array.isArray(list))
    throw wrong(place, `has no list of messages as ${name}`, 'give [{"role": …, "content": …}]');
  return list.map((message: unknown, i) => messageOf(place, message, `message ${i}${ofList}`));
}

function messageOf(place: string, message: unknown, name: string): ChatMessage {
  const fields = typeof message === 'object' && message !== null ? { ...message } : {};
  const { role, from, content, value } = fields as Readonly<Record<string, unknown>>;
  const who = role ?? from;
  if (typeof who !== 'string') throw wrong(place, `has no role in ${name}`, FORMS);
  return { role: ownValue(ROLES, who) ?? who, content: textOf(place, name, content ?? value) };
}

/** Returns the text of a message's content: a text, or a list of parts with texts. */
function textOf(place: string, partName: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) {
    const texts = value.map((part: unknown) =>
      typeof part === 'object' && part !== null && 'text' in part ? part.text : part,
    );
    if (texts.every((text) => typeof text === 'string')) return texts.join('');
  }
  const kind = value === undefined || value === null ? 'nothing' : typeof value;
  throw wrong(place, `has ${kind} as ${partName}`, 'give a text; images and sound are not trained here');
}

/** Returns the error about a record. */
export function wrong(place: string, problem: string, advice: string): ConfigError {
  return new ConfigError(`data: ${place} ${problem}; ${advice}`);
}
