import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig } from '../../../src/config/train-config';
import type { Engine } from '../../../src/engine/backend/engine';
import { buildModel } from '../../../src/nn/models/build-model';
import type { Module } from '../../../src/nn/module';
import { AdamW } from '../../../src/sharding/optim/adamw';
import { groupRates, setRates } from '../../../src/sharding/optim/optimizer';
import { givenGroups, namedGroups } from '../../../src/sharding/optim/param-groups';
import { SGD } from '../../../src/sharding/optim/sgd';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
let model: Module;
before(async () => {
  engine = await testEngine();
  model = buildModel(
    parseTrainConfig({ model: { kind: 'gpt', layers: 2, dim: 8, heads: 2, vocab: 256, seq: 4 } }),
  );
});

const namesOf = (parameters: readonly { readonly name: string }[] | null | undefined) =>
  parameters?.map(({ name }) => name).sort();

test('a name fits a whole name, its end, or a class of modules; the first group that fits has the parameter', () => {
  const all = [...model.namedParameters().keys()];
  const [others, norms, block, biases] = namedGroups(model, [
    { modules: ['LayerNorm'] },
    { modules: 'blocks.0', lr: 1 },
    { parameters: ['bias'] },
  ]);
  const isNorm = (name: string) => /ln/.test(name);
  const expected = (fits: (name: string) => boolean) => all.filter(fits).sort();
  assert.equal(others?.parameters, null);
  assert.deepEqual(namesOf(norms?.parameters), expected(isNorm));
  assert.deepEqual(
    namesOf(block?.parameters),
    expected((name) => name.startsWith('blocks.0.') && !isNorm(name)),
  );
  assert.deepEqual(
    namesOf(biases?.parameters),
    expected((name) => name.endsWith('.bias') && !name.startsWith('blocks.0.') && !isNorm(name)),
  );
  assert.ok((biases?.parameters?.length ?? 0) > 0);
});

test('optimizer.lr sets the rate of every group, paramGroups of one; a checkpoint has all rates', () => {
  const groups = namedGroups(model, [{ parameters: 'bias', lr: 0.5, weightDecay: 0 }]);
  const make = () => new AdamW(engine, model, { lr: 0.1, weightDecay: 0.2 }, { groups });
  const optimizer = make();
  assert.deepEqual(
    optimizer.paramGroups.map(({ lr, settings }) => [lr, settings.weightDecay]),
    [
      [0.1, 0.2],
      [0.5, 0],
    ],
  );
  const other = make();
  const [, second] = optimizer.paramGroups;
  if (second !== undefined) second.lr = 0.7;
  setRates(other, optimizer.lr, groupRates(optimizer));
  assert.deepEqual(groupRates(other), [0.1, 0.7]);
  assert.throws(
    () => setRates(other, 3),
    /saved optimizer has 1 parameter groups, but this optimizer has 2; make the same/,
  );
  assert.deepEqual(groupRates(other), [0.1, 0.7]);
  other.lr = 0.3;
  assert.deepEqual(groupRates(other), [0.3, 0.3]);
});

test('parameters in none of the groups of a cell are not updated', () => {
  const given = givenGroups([{ params: model.modules()[1] ?? assert.fail(), lr: 1 }], 'optim.adamW');
  assert.ok(given.model.states().length < model.states().length);
});

test('mistakes in groups are errors with what to write', () => {
  const [first] = model.parameters();
  assert.ok(first);
  const named = (group: object) => () => namedGroups(model, [group]);
  const given =
    (...groups: object[]) =>
    () =>
      givenGroups(groups as never, 'optim.adamW');
  const own = (group: object) => () =>
    new SGD(engine, model, {}, { groups: [{ parameters: null, own: group }] });
  const cases = [
    [named({ parameters: 'biass' }), /optimizer\.groups\.0\.parameters: .*"biass".*did you mean/],
    [named({ modules: 'LayerNrm' }), /optimizer\.groups\.0\.modules: .*"LayerNrm"/],
    [named({ lr: 1 }), /optimizer\.groups\.0: give modules or parameters/],
    [given(), /empty list/],
    [given({ lr: 1 }), /group 0 is .* without params/],
    [given({ params: [1] }), /params of group 0 are an array without parameters/],
    [given({ params: [first] }, { params: first }), /is in more than one group/],
    [own({ betas: [0, 0] }), /a parameter group: unknown option "betas"/],
    [own({ momentum: 0.9 }), /the optimizer has none/],
    [own({ lr: -1 }), /lr must be/],
  ] as const;
  for (const [make, message] of cases) assert.throws(make, { code: 'CONFIG', message });
});
