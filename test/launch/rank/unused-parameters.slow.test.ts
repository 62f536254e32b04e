import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { launchFor, runCell } from '../../session/job-fixture';
import { casesHere } from '../../support/cases';
import { assertClose } from '../../support/close';
import { testData } from '../../support/paths';

type Values = Readonly<Record<string, readonly number[]>>;

/** Source: unused_reference.py. */
const REFERENCES = JSON.parse(readFileSync(testData('unused_reference.json'), 'utf8')) as Readonly<
  Record<string, Values>
>;

interface Case {
  readonly reference: string;
  readonly wrap: string;
  /** Whether rank 0 alone uses the layer in the second step. */
  readonly divides?: boolean;
  readonly optimizer?: string;
}

const ADAMW = 'optim.adamW(model, { lr: 0.05, weightDecay: 0.5 })';

const CASES: Readonly<Record<string, Case>> = {
  DDP: { reference: 'DDP', wrap: 'DDP(model)' },
  'DDP, used by rank 0 alone': { reference: 'DDP, rank 0', wrap: 'DDP(model)', divides: true },
  fullyShard: { reference: 'fullyShard', wrap: 'fullyShard(model)' },
  'fullyShard, a unit a layer': {
    reference: 'fullyShard',
    wrap: 'for (const layer of [model.a, model.b, model.c]) fullyShard(layer); fullyShard(model)',
  },
  'fullyShard, used by rank 0 alone': { reference: 'DDP, rank 0', wrap: 'fullyShard(model)', divides: true },
  'fullyShard with states on the host': {
    reference: 'fullyShard',
    wrap: 'fullyShard(model, { offloadPolicy: CPUOffloadPolicy() })',
  },
  'copies of shards': {
    reference: 'fullyShard',
    wrap: "fullyShard(model, { mesh: initDeviceMesh([2, 1], ['replicate', 'shard']) })",
  },
  'copies of shards, used by rank 0 alone': {
    reference: 'DDP, rank 0',
    wrap: "fullyShard(model, { mesh: initDeviceMesh([2, 1], ['replicate', 'shard']) })",
    divides: true,
  },
  'ZeRO-1': { reference: 'DDP', wrap: "fullyShard(model, { strategy: 'ZERO_1' })" },
  'ZeRO-2, used by rank 0 alone': {
    reference: 'DDP, rank 0',
    wrap: "fullyShard(model, { strategy: 'ZERO_2' })",
    divides: true,
  },
  FSDP: { reference: 'FSDP', wrap: 'model = FSDP(model)' },
  'FSDP without shards': { reference: 'FSDP', wrap: "model = FSDP(model, { shardingStrategy: 'NO_SHARD' })" },
};

const trainingOf = ({ wrap, divides = false, optimizer = ADAMW }: Case): string => `
  class Model extends nn.Module {
    constructor() {
      super();
      this.a = this.addChild('a', new nn.Linear(4, 4));
      this.b = this.addChild('b', new nn.Linear(4, 4));
      this.c = this.addChild('c', new nn.Linear(4, 1));
    }
    forward(x) {
      const h = tf.tanh(this.a.apply(x));
      return tf.mean(this.c.apply(this.usesB ? tf.tanh(this.b.apply(h)) : h));
    }
  }
  const plain = new Model();
  let model = plain;
  model.parameters().forEach((parameter, i) => {
    const values = Float32Array.from({ length: parameter.size }, (_, n) => 0.5 * Math.sin(n + i));
    parameter.replace(tf.keep(tf.tensor(values, [...parameter.shape])));
  });
  ${wrap};
  const opt = ${optimizer};
  const uses = [true, ${divides} && rank === 0, false, true];
  for (let step = 0; step < 4; step++) {
    plain.usesB = uses[step];
    const x = tf.tensor(Float32Array.from({ length: 8 }, (_, n) => Math.cos(n + 8 * (2 * step + rank))), [2, 4]);
    opt.zeroGrad();
    const pass = gradients(() => model.apply(x));
    pass.backward();
    opt.step();
    tf.dispose([x, pass.loss]);
  }
  const values = {};
  FSDP.summonFullParams(model, () => {
    for (const { name, tensor } of model.parameters()) values[name] = [...tensor.dataSync()];
  });
  console.log(JSON.stringify(values));`;

for (const transport of ['shared-memory', 'zeromq'] as const) {
  test(`parameters without gradients stay unchanged, or get zero gradients under FSDP, as in PyTorch (${transport})`, async (context) => {
    const job = await launchFor(context, { ranks: 2, transport });
    const inZeromq = ['DDP, used by rank 0 alone', 'fullyShard', 'ZeRO-2, used by rank 0 alone'];
    const here = transport === 'zeromq' ? casesHere(CASES, inZeromq) : CASES;
    for (const [name, one] of Object.entries(here)) {
      const events = await runCell(job, `{${trainingOf(one)}}`);
      for (const event of events) {
        if (event.kind !== 'stream' || event.name !== 'stdout') continue;
        const values = JSON.parse(event.text) as Values;
        for (const [parameter, reference] of Object.entries(REFERENCES[one.reference] ?? {}))
          assertClose(
            values[parameter] ?? [],
            reference,
            1e-5,
            `${name}: ${parameter} of rank ${event.rank}`,
          );
      }
    }
  });
}
