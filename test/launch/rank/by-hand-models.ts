import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { RankEvent } from '../../../src/launch/control/messages';
import type { Job } from '../../../src/session/run/job';
import { runCell } from '../../session/job-fixture';
import { assertClose } from '../../support/close';
import { testData } from '../../support/paths';

/** Parameters' values by name. */
export type Values = Readonly<Record<string, readonly number[]>>;

interface Reference {
  readonly gradients: Readonly<Record<'DDP' | 'fullyShard' | 'FSDP', readonly Values[]>>;
  readonly unfreezing: Readonly<Record<'adamW' | 'adam' | 'sgd', readonly Values[]>>;
  readonly freezing: Readonly<Record<'DDP' | 'between', readonly Values[]>>;
  readonly sharing: Readonly<
    Record<'DDP' | 'fullyShard', { readonly values: readonly Values[]; readonly losses: readonly number[] }>
  >;
  readonly clipping: Readonly<
    Record<'equal rows' | 'other rows', { readonly norms: readonly number[]; readonly values: Values }>
  >;
  readonly batchNorm: {
    readonly y: readonly number[];
    readonly dx: readonly number[];
    readonly gradients: readonly (readonly number[])[];
    readonly statistics: readonly (readonly number[])[];
  };
}

/** Source: test/data/by_hand_reference.py. */
export const TORCH = JSON.parse(readFileSync(testData('by_hand_reference.json'), 'utf8')) as Reference;

/** The models and rows of by_hand_reference.py, as the source of cells; `record` keeps the values after a step. */
export const MODELS = `
  const filled = (module) => {
    module.parameters().forEach((parameter, i) => {
      const values = Float32Array.from({ length: parameter.size }, (_, n) => 0.5 * Math.sin(n + i));
      parameter.replace(tf.keep(tf.tensor(values, [...parameter.shape])));
    });
    return module;
  };
  class Layers extends nn.Module {
    a = new nn.Linear(4, 4);
    b = new nn.Linear(4, 4);
    c = new nn.Linear(4, 1);
    forward(x) {
      return tf.mean(this.c.apply(tf.tanh(this.b.apply(tf.tanh(this.a.apply(x))))));
    }
  }
  class Block extends nn.Module {
    own = new nn.Linear(4, 4);
    constructor(shared) {
      super();
      this.shared = shared;
    }
    forward(x) {
      return tf.tanh(this.shared.apply(tf.tanh(this.own.apply(x))));
    }
  }
  class Shared extends nn.Module {
    constructor() {
      super();
      const shared = new nn.Linear(4, 4);
      this.blocks = new nn.ModuleList([new Block(shared), new Block(shared), new Block(shared)]);
    }
    forward(x) {
      return tf.mean([...this.blocks].reduce((y, block) => block.apply(y), x));
    }
  }
  const rows = (step, of = rank) =>
    tf.tensor(Float32Array.from({ length: 8 }, (_, n) => Math.cos(n + 8 * (2 * step + of))), [2, 4]);
  const found = [];
  const record = (model) => {
    const values = {};
    FSDP.summonFullParams(model, () => {
      for (const { name, tensor } of model.parameters()) values[name] = [...tensor.dataSync()];
    });
    found.push(values);
  };`;

/** Runs a cell on all ranks and returns what each rank printed, parsed. */
export async function printedBy<T>(job: Job, source: string): Promise<readonly T[]> {
  const texts: string[] = [];
  for (const event of await runCell(job, `{${MODELS}\n${source}\n}`)) {
    if (event.kind === 'stream' && event.name === 'stdout')
      texts[event.rank] = (texts[event.rank] ?? '') + event.text;
  }
  assert.equal(texts.length, job.ranks.length, 'each rank prints its values');
  return texts.map((text) => JSON.parse(text) as T);
}

/** The warnings of a cell. */
export function warningsIn(events: readonly RankEvent[]): string {
  return events
    .flatMap((event) => (event.kind === 'stream' && event.name === 'stderr' ? event.text : []))
    .join('');
}

/** Fails if values of any step and parameter differ from torch's. */
export function assertSteps(found: readonly Values[], expected: readonly Values[], what: string): void {
  assert.equal(found.length, expected.length, what);
  expected.forEach((values, step) => {
    for (const [name, value] of Object.entries(values))
      assertClose(found[step]?.[name] ?? [], value, 1e-5, `${what}, step ${step}: ${name}`);
  });
}
