import { randomUUID } from 'node:crypto';
import type { Random } from '../../src/core/random';
import type { JupyterClient } from './jupyter-client';

/** Requests of every kind, except the one that ends the kernel. */
const REQUESTS: readonly (readonly [type: string, content: Record<string, unknown>])[] = [
  ['kernel_info_request', {}],
  ['complete_request', { code: 'parseFl', cursor_pos: 7 }],
  ['inspect_request', { code: 'parseInt', cursor_pos: 3, detail_level: 0 }],
  ['is_complete_request', { code: 'if (true) {' }],
  ['history_request', { hist_access_type: 'tail', n: 3, output: false, raw: true }],
  ['comm_info_request', { target_name: 'x' }],
  ['comm_open', { comm_id: 'c', target_name: 'x', data: {} }],
  ['comm_msg', { comm_id: 'c', data: { a: 1 } }],
  ['comm_close', { comm_id: 'c', data: {} }],
  ['interrupt_request', {}],
  ['execute_request', { code: '', silent: false, store_history: true, user_expressions: { a: '' } }],
  ['input_reply', { value: 'x' }],
];

const CHANNELS = ['shell', 'control', 'stdin'] as const;

const DEEP = 20_000;
/** Values in the place of others that the protocol requires. */
const WRONG = [
  'null',
  '[]',
  '{}',
  '-1',
  '1e400',
  '0.5',
  'true',
  '""',
  '"x"',
  '"\\u0000\\ud800"',
  '{"toString":1,"valueOf":2}',
  '{"__proto__":{"a":1},"constructor":null}',
  `${'['.repeat(DEEP)}${']'.repeat(DEEP)}`,
  `${'{"a":'.repeat(DEEP)}1${'}'.repeat(DEEP)}`,
  `"${'x'.repeat(200_000)}"`,
];

/** Sends seeded messages that are signed by the kernel's key and wrong in one or several ways. */
export async function sendMutants(client: JupyterClient, count: number, random: Random): Promise<void> {
  for (let i = 0; i < count; i++) {
    const frames = mutant(client, random);
    const channel = pick(random, CHANNELS);
    await client.sendFrames(frames, channel);
    if (random.integer(20) === 0) await client.sendFrames(frames, channel);
  }
}

function mutant(client: JupyterClient, random: Random): (Buffer | string)[] {
  const [type, content] = pick(random, REQUESTS);
  const header = {
    msg_id: randomUUID(),
    session: 's',
    username: 'u',
    date: '',
    msg_type: type,
    version: '5.4',
  };
  const parts: (Buffer | string)[] = [
    random.integer(2) === 0 ? JSON.stringify(header) : wrongField(header, random),
    '{}',
    '{}',
    random.integer(4) === 0 ? JSON.stringify(content) : wrongField(content, random),
  ];
  if (random.integer(3) === 0) {
    const at = random.integer(parts.length);
    parts[at] = random.integer(2) === 0 ? pick(random, WRONG) : damaged(String(parts[at]), random);
  }
  const buffers = random.integer(10) === 0 ? [Buffer.alloc(random.integer(1e6), 7)] : [];
  const frames = client.signed(parts, buffers);
  if (random.integer(20) === 0) frames.length = random.integer(frames.length) + 1;
  return frames;
}

/** The object as JSON with one field missing, wrong or added. */
function wrongField(object: Record<string, unknown>, random: Random): string {
  const fields = Object.entries(object).map(([key, value]) => [key, JSON.stringify(value)]);
  const at = random.integer(fields.length + 1);
  const key = fields[at]?.[0] ?? pick(random, ['added', '__proto__', 'toString']);
  if (random.integer(3) === 0) fields.splice(at, 1);
  else fields[at] = [key, pick(random, WRONG)];
  return `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
}

/** Some bytes removed, or some replaced. */
function damaged(text: string, random: Random): Buffer {
  const bytes = Buffer.from(text);
  if (random.integer(2) === 0) return bytes.subarray(0, random.integer(bytes.length + 1));
  for (let i = 0; i < 3 && bytes.length > 0; i++) bytes[random.integer(bytes.length)] = random.integer(256);
  return bytes;
}

function pick<T>(random: Random, list: readonly T[]): T {
  // Never out of range.
  return list[random.integer(list.length)] as T;
}
