import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import { SILENT } from '../../src/core/events';
import { IGNORED_LABEL } from '../../src/core/ignored-label';
import type { Engine } from '../../src/engine/backend/engine';
import type { StateDict } from '../../src/nn/load-state';
import { buildModel } from '../../src/nn/models/build-model';
import type { Module } from '../../src/nn/module';
import { openInstructions } from '../../src/training/data/batches';
import type { PreparedInstructions } from '../../src/training/data/prepared';
import { createTrainer } from '../../src/training/trainer';
import { scattered } from '../nn/model-reference';
import { assertClose } from '../support/close';
import { soloGroup } from '../support/solo-group';
import { testEngine } from '../support/wasm-test-engine';
import { LLAMA, preparer } from './instruction-data';
import { type DpoCase, dpoConfig, dpoReference, NUM_PAIRS, PAIRS } from './preference-data';

const { folder, prepare } = preparer();
let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const OPTIONS = { world: 1, seed: 0, seq: LLAMA.seq, vocab: LLAMA.vocab, accumulation: 1 };

/** The tokens of each row up to its last answer, and the tokens that have labels. */
function rowsOf(data: PreparedInstructions): { ids: number[]; answer: number[] }[] {
  const { numRows } = data.train;
  const { batch } = openInstructions({ ...data, shuffle: false }, { ...OPTIONS, batch: numRows });
  const { tokens, seq, answers, batch: rows } = batch(0, 0);
  return Array.from({ length: rows }, (_, row) => {
    const labels = [...(answers?.labels.subarray(row * seq, (row + 1) * seq) ?? [])];
    const last = labels.findLastIndex((label) => label !== IGNORED_LABEL);
    const ids = [...tokens.subarray(row * (seq + 1), row * (seq + 1) + last + 2)];
    return { ids, answer: labels.filter((label) => label !== IGNORED_LABEL) };
  });
}

function written(name: string, records: readonly object[]): string {
  const path = join(folder, name);
  writeFileSync(path, records.map((record) => `${JSON.stringify(record)}\n`).join(''));
  return path;
}

function withPairs(preferences: string, data: object = {}): Promise<PreparedInstructions> {
  return prepare(dpoConfig({}, { preferences, ...data }));
}

test("a batch has the chosen rows and then the rejected ones, with transformers' tokens and labels after the common messages", async () => {
  const { pairs } = dpoReference();
  const rows = rowsOf(await withPairs(PAIRS));
  assert.equal(rows.length, 2 * NUM_PAIRS);
  const expected = (['chosen_ids', 'rejected_ids'] as const).flatMap((answer) =>
    pairs.map((pair) => ({ ids: [...pair.prompt_ids, ...pair[answer]], answer: pair[answer] })),
  );
  assert.deepEqual(rows, expected);
});

test('pairs that are too long, equal or alone are left out and counted', async () => {
  const { notes } = await withPairs(PAIRS);
  assert.deepEqual(
    notes.map((note) => /(\d of \d pairs) of .*pairs\.jsonl (have [^;]*)/.exec(note)?.slice(1).join(' ')),
    [
      '1 of 9 pairs have more than 64 tokens and are left out',
      '1 of 9 pairs have only one answer, not a chosen and a rejected one, and are left out',
      '1 of 9 pairs have two equal answers within 64 tokens and are left out',
    ],
  );
});

test("TRL's, ms-swift's and LLaMA-Factory's forms of a pair give the same tokens", async () => {
  const user = { role: 'user', content: 'Say yes.' };
  const [yes, no] = ['yes', 'no'].map((content) => ({ role: 'assistant', content }));
  const [gptYes, gptNo] = ['yes', 'no'].map((value) => ({ from: 'gpt', value }));
  const forms = [
    { prompt: 'Say yes.', chosen: 'yes', rejected: 'no' },
    { prompt: [user], chosen: [yes], rejected: [no] },
    { chosen: [user, yes], rejected: [user, no] },
    { prompt: 'Say yes.', messages: [user, yes], chosen: [user, yes], rejected: [user, no] },
    { messages: [user, yes], rejected_response: 'no' },
    { messages: [user, yes], rejected_messages: [user, no] },
    { query: 'Say yes.', response: 'yes', rejected_response: 'no' },
    { conversations: [{ from: 'human', value: 'Say yes.' }], chosen: gptYes, rejected: gptNo },
    { instruction: 'Say yes.', input: '', chosen: 'yes', rejected: 'no' },
  ];
  const rows = await Promise.all(
    forms.map(async (form, i) => rowsOf(await withPairs(written(`form-${i}.jsonl`, [form])))),
  );
  for (const [i, row] of rows.entries()) assert.deepEqual(row, rows[0], `form ${i}`);
});

test('a record that is no pair is an error with its place', async () => {
  const user = (content: string) => ({ role: 'user', content });
  const yes = { role: 'assistant', content: 'yes' };
  for (const [record, message] of [
    [{ chosen: 'yes', rejected: 'no' }, /line 1 has a text as chosen, and no prompt; give prompt, chosen/],
    [
      { chosen: [user('a'), yes], rejected: [user('b'), yes] },
      /line 1 has a chosen and a rejected conversation that differ in message 0, which is no answer/,
    ],
    [{ text: 'a' }, /line 1 has the keys text, which are no conversation; give prompt, chosen and rejected/],
  ] as const)
    await assert.rejects(withPairs(written('wrong.jsonl', [record])), message);
});

test('preferences need dpo, dpo needs preferences, and divided models or packing are refused', () => {
  const data = { preferences: PAIRS };
  for (const [config, message] of [
    [
      { data, model: LLAMA },
      /data\.preferences: has pairs of answers, on which only dpo trains; write dpo: \{\}/,
    ],
    [{ dpo: {}, data: 'typescript' }, /dpo: needs pairs of answers; write data: \{ preferences/],
    [
      { dpo: {}, data, model: LLAMA, parallel: { tp: 2 } },
      /dpo: compares whole answers, but parallel\.tp 2 divides/,
    ],
    [
      { dpo: {}, data, model: LLAMA, loss: 'function' },
      /dpo: is a loss itself, so loss cannot be a function; leave one of the two out/,
    ],
    [{ dpo: {}, data, model: LLAMA, parallel: { pp: 2 } }, /parallel\.pp 2 divides.*use parallel\.pp 1/],
    [
      { dpo: {}, data: { ...data, packing: true }, model: LLAMA },
      /data\.packing: cannot be combined with pref/,
    ],
    ...[0, -1, Number.NaN, 1e-60, 1e39].map(
      (beta) => [{ dpo: { beta }, data, model: LLAMA }, /dpo\.beta/] as const,
    ),
  ] as const)
    assert.throws(() => parseTrainConfig(config), message);
});

/** The values of dpo_reference.py for a parameter: the number of its name among all names is its place. */
function referenceValues(name: string, size: number, place: number): Float32Array {
  const extra = /norm.*\.weight$/.test(name) ? 1 : 0;
  return scattered(size, place).map((value) => value + extra);
}

/** The state of the model before its adapters. */
function referenceState({ base }: DpoCase): StateDict {
  const model = buildModel(dpoConfig());
  const entries = base.map((name, place) => {
    const { shape, size } = model.namedParameters().get(name) ?? assert.fail(name);
    return [name, { shape, values: referenceValues(name, size, place) }] as const;
  });
  model.dispose();
  return new Map(entries);
}

/** Gives adapters the values of dpo_reference.py. */
function giveAdapters(model: Module, { trained }: DpoCase): void {
  for (const [place, name] of trained.filter((one) => one.includes('lora_A')).entries()) {
    const parameter = model
      .namedParameters()
      .get(name.replace('base_model.model.', '').replace('.default', ''));
    assert.ok(parameter, name);
    const values = referenceValues(name, parameter.size, place);
    parameter.defer({ fill: (start, target) => target.set(values.subarray(start, start + target.length)) });
  }
}

for (const reference of dpoReference().cases) {
  test(`losses and rewards over 8 steps equal those of TRL's DPOTrainer: ${reference.name}`, async () => {
    const { batch, accumulation, seed, steps, beta } = dpoReference().settings;
    const { lora, lr, labelSmoothing } = reference;
    const config = dpoConfig({
      ...{ batch, accumulation, seed, steps, dpo: { beta, labelSmoothing } },
      lora: lora ? { r: 4, alpha: 8, targets: ['q_proj', 'v_proj', 'down_proj'] } : null,
      optimizer: { lr, weightDecay: 0 },
      parallel: { strategy: 'NO_SHARD' },
    });
    const initialState = referenceState(reference);
    const data = await prepare(config);
    const trainer = createTrainer({
      config,
      data,
      engine,
      group: soloGroup(engine),
      observer: SILENT,
      initialState,
    });
    giveAdapters(trainer.model, lora ? reference : { ...reference, trained: [] });
    const results = Array.from({ length: steps }, () => trainer.step());
    trainer.dispose();
    assertClose(
      results.map(({ loss }) => loss),
      reference.losses,
      1e-5,
      'losses',
    );
    for (const name of ['margin', 'accuracy', 'chosen', 'rejected'] as const)
      assertClose(
        results.map(({ rewards }) => rewards?.[name] ?? Number.NaN),
        reference[name],
        1e-5,
        name,
      );
  });
}
