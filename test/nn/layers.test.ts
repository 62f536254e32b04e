import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { SILENT, type Tag } from '../../src/core/events';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import type { Engine } from '../../src/engine/backend/engine';
import { withMetaEngine } from '../../src/engine/backend/meta-engine';
import type { Module } from '../../src/nn/module';
import { Parameter } from '../../src/nn/parameter';
import { ENGINE_CASES } from '../support/engines';
import { testData } from '../support/paths';
import { testEngine } from '../support/wasm-test-engine';
import { LAYER_CASES, type LayerCase } from './layer-cases';
import { scattered } from './model-reference';

interface InputSpec {
  readonly shape: readonly number[];
  readonly classes?: number;
  readonly ignored?: readonly number[];
  readonly grad?: boolean;
}

interface LayerReference {
  readonly inputs: readonly InputSpec[];
  readonly parameters: readonly string[];
  readonly shapes: readonly number[][];
  readonly outputs: readonly number[][];
  readonly inputGradients: readonly (readonly number[] | null)[];
  readonly gradients: Readonly<Record<string, readonly number[]>>;
  readonly buffers?: Readonly<Record<string, readonly number[]>>;
  readonly eval?: {
    readonly output: readonly number[];
    readonly inputGradient: readonly number[];
    readonly gradients: Readonly<Record<string, readonly number[]>>;
  };
}

// Written by test/data/layer_reference.py.
const { cases } = JSON.parse(readFileSync(testData('layer_reference.json'), 'utf8')) as {
  cases: Readonly<Record<string, LayerReference>>;
};

const sizeOf = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1);

/** Within 2e-5 of the largest value; torch's own float32 sums differ by up to 1e-6. */
function requireClose(actual: ArrayLike<number>, expected: readonly number[], what: string): void {
  assert.equal(actual.length, expected.length, what);
  const bound = 2e-5 * Math.max(1e-2, ...expected.map(Math.abs));
  expected.forEach((value, i) => {
    assert.ok(
      Math.abs((actual[i] ?? Number.NaN) - value) <= bound,
      `${what}[${i}] is ${actual[i]}, torch's ${value}`,
    );
  });
}

function made(spec: InputSpec, index: number): Parameter {
  const size = sizeOf(spec.shape);
  const { classes, ignored = [] } = spec;
  if (classes === undefined) {
    const values = scattered(size, 100 + index, 4);
    return new Parameter(tf.tensor(values, [...spec.shape], 'float32'), {
      requiresGrad: spec.grad !== false,
    });
  }
  const labels = Array.from({ length: size }, (_, i) => (ignored.includes(i) ? -100 : (7 * i + 3) % classes));
  return new Parameter(tf.tensor(labels, [...spec.shape], 'int32'), { requiresGrad: false });
}

/** The tensors in nested arrays. */
function tensorsIn(tree: unknown): tf.Tensor[] {
  return [tree].flat(3).filter((item) => item instanceof tf.Tensor);
}

function caseOf(name: string): LayerCase {
  return LAYER_CASES[name] as LayerCase; // the record and the table have the same names
}

interface Pass {
  readonly outputs: readonly tf.Tensor[];
  readonly inputs: readonly Parameter[];
}

function run(engine: Engine, name: string, layer: Module, { inputs }: LayerReference): Pass {
  const parameters = inputs.map(made);
  const call = caseOf(name).call ?? ((module: Module, xs: readonly tf.Tensor[]) => module.apply(...xs));
  let outputs: readonly tf.Tensor[] = [];
  const pass = gradients(engine, () => {
    outputs = tensorsIn(
      call(
        layer,
        parameters.map(({ tensor }) => tensor),
      ),
    );
    for (const output of outputs) tf.keep(output);
    const terms = outputs.map((y, k) => tf.sum(tf.mul(y, tf.tensor(scattered(y.size, 200 + k), y.shape))));
    return tf.addN(terms);
  });
  pass.backward();
  return { outputs, inputs: parameters };
}

function load(layer: Module, { parameters }: LayerReference): void {
  const named = [...layer.namedParameters()];
  assert.deepEqual(
    named.map(([name]) => name),
    parameters,
    "names and order of torch's parameters",
  );
  named.forEach(([, parameter], p) => {
    parameter.replace(tf.keep(tf.tensor(scattered(parameter.size, p), [...parameter.shape])));
  });
}

function requireGradients(layer: Module, expected: Readonly<Record<string, readonly number[]>>): void {
  for (const [name, parameter] of layer.namedParameters())
    requireClose(parameter.grad?.dataSync() ?? [], expected[name] ?? [], `gradient of ${name}`);
}

test('the record has the cases of the table', () => {
  assert.deepEqual(Object.keys(cases).sort(), Object.keys(LAYER_CASES).sort());
});

for (const engineCase of ENGINE_CASES) {
  describe(`layers equal torch's ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });
    for (const [name, reference] of Object.entries(cases)) {
      test(name, () => {
        const layer = caseOf(name).layer();
        load(layer, reference);
        const { outputs, inputs } = run(engine, name, layer, reference);
        assert.deepEqual(
          outputs.map(({ shape }) => shape),
          reference.shapes,
        );
        outputs.forEach((y, k) => {
          requireClose(y.dataSync(), reference.outputs[k] ?? [], `output ${k}`);
        });
        inputs.forEach(({ grad }, i) => {
          const expected = reference.inputGradients[i] ?? null;
          if (expected !== null) requireClose(grad?.dataSync() ?? [], expected, `gradient of input ${i}`);
        });
        requireGradients(layer, reference.gradients);
        if (reference.eval !== undefined) requireEval(engine, name, layer, reference);
        layer.dispose();
      });
    }
  });
}

/** Compares the buffers after one step in training, and then the layer in eval mode. */
function requireEval(engine: Engine, name: string, layer: Module, reference: LayerReference): void {
  for (const [buffer, expected] of Object.entries(reference.buffers ?? {}))
    requireClose(layer.namedBuffers().get(buffer)?.tensor.dataSync() ?? [], expected, buffer);
  assert.equal(layer.namedBuffers().size, Object.keys(reference.buffers ?? {}).length);
  layer.zeroGrad();
  layer.eval();
  const { outputs, inputs } = run(engine, name, layer, reference);
  requireClose(outputs[0]?.dataSync() ?? [], reference.eval?.output ?? [], 'output in eval');
  requireClose(inputs[0]?.grad?.dataSync() ?? [], reference.eval?.inputGradient ?? [], 'gradient in eval');
  requireGradients(layer, reference.eval?.gradients ?? {});
}

/** The allocations, retags and frees of a layer's forward and backward, one per line. */
function eventsOf(engine: Engine, name: string, reference: LayerReference): string {
  const lines: string[] = [];
  const held = new Map<number, number>();
  let isOpen = false;
  const note = (what: string, buffer: number, tag?: Tag): void => {
    if (isOpen) lines.push(`${what} ${held.get(buffer)} ${tag?.cause ?? ''}`);
  };
  engine.observe({
    ...SILENT,
    allocated(buffer, bytes, _dtype, tag) {
      held.set(buffer, bytes);
      note('allocate', buffer, tag);
    },
    retagged: (buffer, tag) => note('retag', buffer, tag),
    freed: (buffer) => note('free', buffer),
  });
  isOpen = true;
  const layer = caseOf(name).layer();
  const { outputs } = run(engine, name, layer, reference);
  isOpen = false;
  assert.deepEqual(
    outputs.map(({ shape }) => shape),
    reference.shapes,
  );
  return lines.join('\n');
}

describe('every layer allocates and frees the same buffers on shapes alone', () => {
  let engine: Engine;
  before(async () => {
    engine = await testEngine();
  });
  for (const [name, reference] of Object.entries(cases)) {
    // A dry run assumes that no label is ignored.
    if (reference.inputs.some(({ ignored = [] }) => ignored.length > 0)) continue;
    test(name, () => {
      const planned = withMetaEngine({ blas: false }, (meta) => eventsOf(meta, name, reference));
      assert.equal(planned, eventsOf(engine, name, reference));
    });
  }
});
