import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import type * as tf from '../../src/core/tf';
import { Block } from '../../src/nn/block';
import { ModuleDict, ModuleList } from '../../src/nn/containers';
import { Embedding } from '../../src/nn/embedding';
import { Linear } from '../../src/nn/linear';
import { GPT, MoeGPT } from '../../src/nn/models/gpt';
import { Module } from '../../src/nn/module';
import { Parameter } from '../../src/nn/parameter';
import { planUnits } from '../../src/sharding/unit-plan';
import {
  alwaysWrapPolicy,
  lambdaAutoWrapPolicy,
  ModuleWrapPolicy,
  modulesToWrap,
  moeAutoWrapPolicy,
  neverWrapPolicy,
  sizeBasedAutoWrapPolicy,
  transformerAutoWrapPolicy,
  type WrapPolicy,
  wrapPolicyOf,
} from '../../src/sharding/wrap-policy';
import { testEngine } from '../support/wasm-test-engine';

/** A module of `size` elements of its own. */
class Sized extends Module {
  constructor(size: number, children: Readonly<Record<string, Module>> = {}) {
    super();
    if (size > 0) this.addParameter('weight', Parameter.ofShape([size]));
    for (const [name, child] of Object.entries(children)) this.addChild(name, child);
  }
  forward(): tf.Tensor {
    throw new Error('never called');
  }
}
class Leaf extends Sized {}

before(async () => {
  await testEngine();
});

const SHAPE = { layers: 2, dim: 4, heads: 1, vocab: 5, seq: 2 };
const gpt = (): GPT => new GPT(SHAPE);
const moe = (): MoeGPT => new MoeGPT({ ...SHAPE, experts: 2 });

const names = (model: Module, policy: WrapPolicy, ignoredModules: Module[] = []): string[] =>
  modulesToWrap(model, policy, ignoredModules)
    .map(({ path }) => path)
    .reverse();

test('modules become units by their class', () => {
  const blocks = ['blocks.0', 'blocks.1'];
  assert.deepEqual(names(gpt(), transformerAutoWrapPolicy({ transformerLayerCls: [Block] })), blocks);
  assert.deepEqual(
    names(gpt(), transformerAutoWrapPolicy({ transformerLayerCls: new Set([Block]) })),
    blocks,
  );
  assert.deepEqual(names(gpt(), ModuleWrapPolicy([Block, Linear])), [
    'blocks.0',
    ...['qkv', 'proj', 'fc1', 'fc2'].map((name) => `blocks.0.${name}`),
    'blocks.1',
    ...['qkv', 'proj', 'fc1', 'fc2'].map((name) => `blocks.1.${name}`),
  ]);
  assert.deepEqual(names(gpt(), lambdaAutoWrapPolicy({ lambdaFn: ({ path }) => path === 'ln_f' })), ['ln_f']);
  assert.deepEqual(
    names(gpt(), ({ path }) => path === 'blocks.1.fc1'),
    ['blocks.1.fc1'],
  );
  assert.deepEqual(names(gpt(), neverWrapPolicy), []);
  assert.equal(names(gpt(), alwaysWrapPolicy).includes('blocks'), false);
});

test('a policy by size does not count parameters that inner units already took', () => {
  const tree = (): Sized =>
    new Sized(0, {
      a: new Sized(1, { big: new Leaf(6), small: new Leaf(4) }),
      list: new ModuleList([new Leaf(5), new Leaf(5), new Leaf(9)]),
      c: new Sized(2, { d: new Leaf(3), e: new Leaf(3) }),
    });
  const bySize = (minNumParams: number, more: object = {}): string[] =>
    names(tree(), sizeBasedAutoWrapPolicy({ minNumParams, ...more }));
  // a: 11 - 6 = 5 are left; the list's 10 are left to the root, because lists do not become units; c: all 8.
  assert.deepEqual(bySize(6), ['a.big', 'list.2', 'c']);
  assert.deepEqual(bySize(5), ['a', 'a.big', 'list.0', 'list.1', 'list.2', 'c']);
  assert.deepEqual(bySize(12), []);
  assert.deepEqual(bySize(6, { forceLeafModules: [Sized] }), []);
  assert.deepEqual(bySize(9, { excludeWrapModules: [Leaf] }), ['a', 'list']);
  assert.deepEqual(names(tree(), sizeBasedAutoWrapPolicy()), []);
});

test('ignored modules are in no unit and their parameters do not count', () => {
  const model = new Sized(0, { a: new Sized(2, { b: new Leaf(8) }), c: new Leaf(8) });
  const [b] = [...(model.children.get('a')?.children.values() ?? [])];
  assert.deepEqual(names(model, sizeBasedAutoWrapPolicy({ minNumParams: 3 }), b === undefined ? [] : [b]), [
    'c',
  ]);
});

test('experts are separate units, and the gate stays with its block', () => {
  const units = names(moe(), moeAutoWrapPolicy);
  assert.deepEqual(
    units,
    [0, 1].flatMap((i) => [`blocks.${i}`, `blocks.${i}.moe.experts.0`, `blocks.${i}.moe.experts.1`]),
  );
});

test('every form of parallel.wrap selects its modules', () => {
  const model = moe();
  const chosen = (wrap: Parameters<typeof wrapPolicyOf>[0]): string[] =>
    names(model, wrapPolicyOf(wrap, model));
  assert.deepEqual(chosen('root'), []);
  assert.deepEqual(chosen('blocks'), ['blocks.0', 'blocks.1']);
  assert.equal(chosen('moe').length, 6);
  assert.equal(chosen('linear').length, 2 * (2 + 1 + 2 * 2));
  assert.deepEqual(chosen({ layerCls: ['TemperatureGating'] }), ['blocks.0.moe.gate', 'blocks.1.moe.gate']);
  assert.deepEqual(chosen({ modules: ['blocks.*.moe', 'ln_f'] }), ['blocks.0.moe', 'blocks.1.moe', 'ln_f']);
  assert.deepEqual(chosen({ minNumParams: 1e8 }), []);
});

test('the items of a list in a list, or of a dictionary in a list, are blocks, because nothing calls the inner list', () => {
  const model = new Sized(0, {
    blocks: new ModuleList<Module>([
      new ModuleList([new Leaf(5), new Leaf(5)]),
      new ModuleDict({ mlp: new Leaf(7) }),
      new Leaf(9),
    ]),
  });
  assert.deepEqual(names(model, wrapPolicyOf('blocks', model)), [
    'blocks.0.0',
    'blocks.0.1',
    'blocks.1.mlp',
    'blocks.2',
  ]);
});

test('a module does not become a unit if another one reads its parameter; the outer unit takes the parameter', () => {
  const tied = names(gpt(), alwaysWrapPolicy);
  const untied = new GPT({ ...SHAPE, tied: false });
  assert.deepEqual(
    names(untied, alwaysWrapPolicy).filter((name) => !tied.includes(name)),
    ['wte', 'lm_head'],
    'positions are read by the model itself, the token table by its tied head',
  );
  assert.deepEqual(names(gpt(), sizeBasedAutoWrapPolicy({ minNumParams: 8 })).includes('wte'), false);
  assert.deepEqual(names(untied, ModuleWrapPolicy([Embedding])), ['wte']);
  const around = new Sized(0, { body: gpt() });
  assert.deepEqual(names(around, lambdaAutoWrapPolicy({ lambdaFn: ({ path }) => path === 'body' })), [
    'body',
  ]);
});

test('the error of a named module that cannot be a unit names the parameter and who else reads it', () => {
  const model = gpt();
  assert.throws(() => wrapPolicyOf({ modules: ['wte'] }, model), {
    code: 'CONFIG',
    message:
      /^parallel\.wrap\.modules: "wte" cannot be a separate unit, because the model itself also reads wte\.weight .*leave "wte"/,
  });
  const plan = (parallel: object) => planUnits(model, parseTrainConfig({ parallel }).parallel);
  assert.throws(
    () => plan({ ignoredModules: ['wpe'] }),
    /parallel\.ignoredModules: "wpe" .* reads wpe\.weight/,
  );
  assert.throws(
    () => plan({ unitStrategies: [{ modules: 'wte', strategy: 'ZERO_2' }] }),
    /parallel\.unitStrategies: "wte"/,
  );
});

test('the error of an unknown class or module names the nearest one', () => {
  const model = gpt();
  assert.throws(
    () => wrapPolicyOf({ layerCls: ['Blok'] }, model),
    /no module of class "Blok"; did you mean "Block"\?/,
  );
  assert.throws(
    () => wrapPolicyOf({ layerCls: ['T5Attention'] }, model),
    /it has Embedding, ModuleList, Block/,
  );
  assert.throws(() => wrapPolicyOf({ modules: ['blocks.*.fc9'] }, model), /did you mean "blocks\.\*\.fc1"/);
});

test('the error of a policy without its options shows the right form', () => {
  // The form of the articles, which TypeScript refuses as well.
  const bare = [
    transformerAutoWrapPolicy,
    sizeBasedAutoWrapPolicy,
    lambdaAutoWrapPolicy,
  ] as unknown as WrapPolicy[];
  const forms = ['transformerLayerCls: [nn.Block]', 'minNumParams: 1e8', 'lambdaFn: (module)'];
  for (const [i, policy] of bare.entries()) {
    assert.throws(
      () => names(gpt(), policy),
      ({ message }: Error) =>
        /without its options.*functools\.partial/.test(message) && message.includes(forms[i] ?? '-'),
    );
  }
  assert.throws(
    () => sizeBasedAutoWrapPolicy(1e6 as never),
    /write sizeBasedAutoWrapPolicy\(\{ minNumParams: 1000000 \}\)/,
  );
  assert.throws(
    () => sizeBasedAutoWrapPolicy({ min_num_params: 1e6 } as never),
    /min_num_params is written minNumParams here/,
  );
  assert.throws(
    () => transformerAutoWrapPolicy({ transformerLayerCls: ['Block'] as never }),
    /takes classes.*"Block" in its list/,
  );
  assert.throws(() => names(gpt(), (() => () => true) as never), /gave .* for module/);
});
