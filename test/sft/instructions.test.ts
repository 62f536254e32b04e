import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { IGNORED_LABEL } from '../../src/core/ignored-label';
import type { TokenBatch } from '../../src/training/data/batch';
import { openInstructions } from '../../src/training/data/batches';
import { packRows } from '../../src/training/data/prepare/instructions';
import type { PreparedInstructions } from '../../src/training/data/prepared';
import { CHATS, LLAMA, preparer, sftConfig, sftReference, TOKENIZER } from './instruction-data';

const { folder, prepare } = preparer();
const OPTIONS = { batch: 2, world: 1, seed: 0, seq: LLAMA.seq, vocab: LLAMA.vocab, accumulation: 1 };

/** The examples of a batch: tokens up to the last target and its end, and labels. */
function labelsOf({ batch, seq, tokens, answers }: TokenBatch): { tokens: number[]; labels: number[] }[] {
  return Array.from({ length: batch }, (_, row) => ({
    tokens: [...tokens.slice(row * (seq + 1), row * (seq + 1) + seq)],
    labels: [...(answers?.labels.slice(row * seq, (row + 1) * seq) ?? [])],
  }));
}

function inOrder(data: PreparedInstructions): ReturnType<typeof labelsOf> {
  const { numRows } = data.train;
  const { batch } = openInstructions({ ...data, shuffle: false }, { ...OPTIONS, batch: numRows });
  return labelsOf(batch(0, 0));
}

function written(name: string, records: readonly object[]): string {
  const path = join(folder, name);
  writeFileSync(path, records.map((record) => `${JSON.stringify(record)}\n`).join(''));
  return path;
}

function withData(instructions: string, data: object = {}): Promise<PreparedInstructions> {
  return prepare(sftConfig({}, { instructions, ...data }));
}

test('tokens and the tokens of answers are those of transformers, and only answers have labels', async () => {
  const data = await prepare(sftConfig());
  const expected = sftReference().examples.filter(({ ids }) => ids.length <= LLAMA.seq);
  const found = inOrder(data);
  assert.equal(found.length, expected.length);
  for (const [i, { ids, answers }] of expected.entries()) {
    const padded = [...ids, ...new Array<number>(LLAMA.seq - ids.length).fill(0)];
    assert.deepEqual(found[i]?.tokens, padded);
    const labels = padded.map((_, t) => (answers[t + 1] === 1 ? (ids[t + 1] ?? Number.NaN) : IGNORED_LABEL));
    assert.deepEqual(found[i]?.labels, labels);
  }
  assert.deepEqual(data.notes.length, 1);
  assert.match(
    data.notes[0] ?? '',
    /1 of 7 examples of .*chats\.jsonl have more than 64 tokens and are left out/,
  );
});

test('messages, conversations, instruction with input, and query with history give the same tokens', async () => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'One.\nTwo.' },
    { role: 'assistant', content: 'Three.' },
  ];
  const { system, ...rest } = { system: 'Be brief.', instruction: 'One.', input: 'Two.', output: 'Three.' };
  const shareGpt = [
    { from: 'system', value: system },
    { from: 'human', value: 'One.\nTwo.' },
    { from: 'gpt', value: 'Three.' },
  ];
  const forms = written('forms.jsonl', [
    { messages },
    { conversations: shareGpt },
    { system, ...rest },
    { system, query: 'One.\nTwo.', response: 'Three.', history: [] },
    { messages: messages.slice(1) },
    { messages: messages.map(({ role, content }) => ({ role, content: [{ type: 'text', text: content }] })) },
  ]);
  const [first, ...others] = inOrder(await withData(forms, { system }));
  assert.equal(others.length, 5);
  for (const other of others) assert.deepEqual(other, first);
  const list = join(folder, 'list.json');
  writeFileSync(list, JSON.stringify([{ messages }], null, 2));
  assert.deepEqual(inOrder(await withData(list))[0], first);
  const history = written('history.jsonl', [
    { query: 'c', response: 'd', history: [['a', 'b']] },
    {
      messages: ['a', 'b', 'c', 'd'].map((content, i) => ({
        role: i % 2 === 0 ? 'user' : 'assistant',
        content,
      })),
    },
  ]);
  const [one, two] = inOrder(await withData(history));
  assert.deepEqual(one, two);
  assert.ok(one?.labels.some((label) => label !== IGNORED_LABEL));
});

test('without a tokenizer, bytes are tokens and the template is ChatML', async () => {
  const path = written('bytes.jsonl', [{ query: 'Hi?', response: 'Yes.' }]);
  const config = parseTrainConfig({ model: { ...LLAMA, seq: 96 }, data: { instructions: path } });
  const data = await prepare(config);
  const { batch } = openInstructions(data, { ...OPTIONS, seq: 96, batch: 1 });
  const [row] = labelsOf(batch(0, 0));
  const text = '<|im_start|>user\nHi?<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n';
  assert.equal(
    Buffer.from(row?.tokens ?? [])
      .toString()
      .replaceAll('\0', ''),
    text,
  );
  const counted = (row?.labels ?? []).filter((label) => label !== IGNORED_LABEL);
  assert.equal(Buffer.from(counted).toString(), 'Yes.<|im_end|>');
});

test('an example that is too long is cut on the side that truncation names, and the run says so', async () => {
  const right = await withData(CHATS, { truncation: 'right' });
  // The answer of the long example begins after the cut.
  assert.equal(right.train.numExamples, 6);
  assert.match(
    right.notes.join('\n'),
    /1 of 7 .* are cut on the right; .*\n.*1 of 7 .* have no token of an answer within 64 tokens/,
  );
  const left = await withData(CHATS, { truncation: 'left' });
  assert.equal(left.train.numExamples, 7);
  const long = sftReference().examples[5];
  assert.deepEqual(inOrder(left)[5]?.tokens, long?.ids.slice(-LLAMA.seq));
});

test('all ranks together read each example once per epoch, and the factor makes the loss a mean over the step', async () => {
  const data = await prepare(sftConfig());
  const counts = (batch: TokenBatch): number =>
    batch.answers?.labels.filter((label) => label !== IGNORED_LABEL).length ?? 0;
  const whole = openInstructions(data, { ...OPTIONS, batch: 6 }).batch(0, 0);
  for (const { world, batch, accumulation } of [
    { world: 1, batch: 2, accumulation: 3 },
    { world: 3, batch: 1, accumulation: 2 },
    { world: 2, batch: 3, accumulation: 1 },
  ]) {
    const source = openInstructions(data, { ...OPTIONS, world, batch, accumulation });
    const step = Array.from({ length: accumulation }, (_, micro) =>
      Array.from({ length: world }, (_, rank) => source.batch(rank, micro)),
    ).flat();
    assert.equal(
      step.reduce((sum, one) => sum + counts(one), 0),
      counts(whole),
    );
    const rows = (batches: readonly TokenBatch[]) =>
      batches.flatMap((one) => labelsOf(one).map(({ tokens }) => tokens.join())).sort();
    assert.deepEqual(rows(step), rows([whole]));
    // Each batch's mean over positions, times its factor, averaged: the mean over targets.
    for (const one of step) assert.equal(one.answers?.factor, (6 * LLAMA.seq) / counts(whole));
  }
  // A run that continues with another accumulation begins its steps where it continues.
  const source = openInstructions(data, { ...OPTIONS, batch: 1, accumulation: 2 });
  const [a, b] = [source.batch(0, 3, 3), source.batch(0, 4, 3)];
  assert.equal(a.answers?.factor, (2 * LLAMA.seq) / (counts(a) + counts(b)));
  assert.equal(b.answers?.factor, a.answers?.factor);
});

test('packed rows have whole examples one after the other, as many as fit, and no more rows than needed', async () => {
  assert.deepEqual(packRows([5, 3, 4, 2, 6], 8), [[3, 4], [0, 1], [2]]);
  assert.deepEqual(packRows([8, 8], 8), [[0], [1]]);
  const data = await prepare(sftConfig({}, { packing: true }));
  assert.equal(data.train.numExamples, 6);
  assert.ok(data.train.numRows < 6, `${data.train.numRows}`);
  const { batch } = openInstructions({ ...data, shuffle: false }, { ...OPTIONS, batch: data.train.numRows });
  const { answers, tokens, seq } = batch(0, 0);
  const expected = sftReference().examples.map(({ ids }) => ids.join());
  let numExamples = 0;
  for (const [row, lengths] of (answers?.documents ?? []).entries()) {
    assert.equal(
      lengths.reduce((a, b) => a + b, 0),
      seq,
    );
    let at = row * (seq + 1);
    for (const length of lengths) {
      const ids = tokens.slice(at, at + length);
      at += length;
      if (ids.every((id) => id === 0)) continue;
      numExamples++;
      assert.ok(expected.includes(ids.join()));
    }
  }
  assert.equal(numExamples, 6);
});

test('a share for validation is never trained on, and has a factor of its own', async () => {
  const data = await prepare(sftConfig({}, { validation: 0.34 }));
  assert.deepEqual([data.train.numExamples, data.validation?.numExamples], [4, 2]);
  const { validation, batch } = openInstructions(data, { ...OPTIONS, batch: 4 });
  const trained = labelsOf(batch(0, 0)).map(({ tokens }) => tokens.join());
  const rest = validation?.batch(0, 0);
  assert.ok(rest);
  const others = labelsOf(rest.batch).map(({ tokens }) => tokens.join());
  assert.equal(new Set([...trained, ...others]).size, 6);
  const numTargets = rest.batch.answers?.labels.filter((label) => label !== IGNORED_LABEL).length ?? 0;
  assert.equal(rest.batch.answers?.factor, (2 * LLAMA.seq) / numTargets);
});

test('records that are no conversation, templates that fail and settings without effect are refused', async () => {
  const wrong = async (record: object, message: RegExp, data: object = {}) =>
    assert.rejects(withData(written('wrong.jsonl', [record]), data), message);
  await wrong(
    { text: 'a' },
    /wrong\.jsonl, line 1 has the keys text, which are no conversation; give messages/,
  );
  await wrong({ messages: [{ role: 'user', content: 'a' }] }, /does not end with an answer of the assistant/);
  await wrong({ messages: [{ role: 'assistant', content: 'a' }] }, /begins with an answer of the assistant/);
  await wrong({ query: 'a', response: 7 }, /has number as response; give a text/);
  const template = join(folder, 'wrong.jinja');
  const pair = { query: 'a', response: 'b' };
  writeFileSync(template, "{{ raise_exception('no roles') }}");
  await wrong(pair, /data\.chatTemplate: .*wrong\.jinja fails: .*no roles/, { chatTemplate: template });
  writeFileSync(template, '{% for message in messages %}{{ message.content }}');
  await wrong(pair, /data\.chatTemplate: .*wrong\.jinja fails/, { chatTemplate: template });
  writeFileSync(template, "{{ messages | length }}{{ messages[-1]['content'] }}");
  await wrong(pair, /does not write answer 1 after the text that asks for it/, { chatTemplate: template });
  await wrong(pair, /there is no file .*none\.jinja; name a file of Jinja, or 'chatml'/, {
    chatTemplate: 'none.jinja',
  });
  const config =
    (data: TrainConfigInput['data'], more: object = {}) =>
    () =>
      parseTrainConfig({ model: LLAMA, data, ...more });
  assert.throws(
    config({ path: CHATS, packing: true }),
    /data\.packing: .*has no effect without instructions/,
  );
  assert.throws(config({ instructions: CHATS, text: 'b' }), /data\.text: .*has no effect with instructions/);
  assert.throws(
    config({ instructions: CHATS }, { model: { kind: 'own' }, loss: 'function' }),
    /data\.instructions: .*for models of kind gpt and llama in job\.train, not for models of your own/,
  );
  assert.throws(
    config({ instructions: CHATS, packing: true }, { parallel: { pp: 2 } }),
    /data\.packing: cannot be combined with parallel\.pp 2/,
  );
  assert.throws(
    () =>
      openInstructions({ vocab: 402, tokenizer: TOKENIZER } as PreparedInstructions, {
        ...OPTIONS,
        vocab: 256,
      }),
    /has 402 tokens, but the model's vocab is 256/,
  );
});
