import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { compare } from '../../src';
import type { StepRecord } from '../../src/ledger/record';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';
import {
  byCause,
  byCollective,
  collectivesByFormula,
  loop,
  NET,
  NUM_PARAMETERS,
  OPTIMIZERS,
  type OptimizerName,
  STRATEGIES,
  type StrategyName,
  setup,
  statesByFormula,
  WORLD,
} from './cell-loops';

describe('a loop by hand in cells of Python', () => {
  let job: Job;
  let cell = 0;
  const plainLosses: Record<string, readonly number[]> = {};

  before(async () => {
    job = await launch({ engine: 'torch', ranks: WORLD });
  });
  after(() => job.shutdown());

  /** torch's FSDP1 never frees the flat parameters of a model whose backward has run, so the next model needs new ranks. */
  const launchAgain = async (): Promise<void> => {
    await job.shutdown();
    job = await launch({ engine: 'torch', ranks: WORLD });
    await python(NET);
  };

  const python = async (source: string): Promise<void> => {
    await job.runPython({ source, cell: ++cell, selection: 'all' }, () => undefined);
  };
  const recordsOf = (step: number): StepRecord[] => job.view.records.filter((one) => one.step === step);

  it('has no figures before the first cell, and says what to do', async () => {
    for (const draw of [() => job.memory(), () => job.comm(), () => job.timeline(), () => job.loss()]) {
      assert.throws(draw, {
        code: 'CONFIG',
        message: /run a %%ranks --python cell or await job\.on\(…\)\.python/,
      });
    }
    // A cell that only defines classes has nothing to draw either.
    await python(NET);
    assert.throws(() => job.memory(), {
      code: 'CONFIG',
      message: /no work of cells and functions is recorded/,
    });
    await python('torch.ones(3)');
    assert.throws(() => job.loss(), {
      code: 'CONFIG',
      message: /call backward\(\) of a loss .* report\(loss\)/,
    });
  });

  const strategies = Object.keys(STRATEGIES) as StrategyName[];
  const optimizers = Object.keys(OPTIMIZERS) as OptimizerName[];
  for (const strategy of strategies) {
    for (const optimizer of optimizers) {
      it(`has the ledger of ${strategy} with ${optimizer}, to the byte`, async () => {
        if (strategy === 'fsdp1' && optimizer !== 'AdamW') await launchAgain();
        job.record(`${strategy} ${optimizer}`);
        await python('losses = []; model = optimizer = loss = None');
        await python(setup(strategy, optimizer));
        await python(loop(strategy, 0, 3));
        const before = [1, 2, 3].flatMap(recordsOf);
        assert.equal(before.length, 3 * WORLD);
        // A second cell continues the record.
        await python(loop(strategy, 3, 5));
        for (const record of [...before, ...[4, 5].flatMap(recordsOf)])
          checkStep(record, strategy, optimizer);
        await checkLosses(optimizer, strategy);
      });
    }
  }

  function checkStep(record: StepRecord, strategy: StrategyName, optimizer: OptimizerName): void {
    const { batch: _, activation = 0, temp = 0, ...states } = byCause(record, 'atRest');
    assert.deepEqual(sorted(states), sorted(statesByFormula(strategy, optimizer, record.rank)));
    // The loss, which is a variable, and the tables of ranks of device meshes.
    assert.ok(activation === 4 && temp <= 100, `activation ${activation}, temp ${temp}`);
    assert.deepEqual(byCollective(record, strategy), collectivesByFormula(strategy));
    const { memory } = record;
    assert.equal(total(byCause(record, 'atPeak')), memory.peakBytes);
    assert.equal(total(byCause(record, 'atRest')), memory.restBytes);
    if (memory.curve !== null) {
      const end = memory.curve.deltaBytes.reduce(
        (sum, delta) => sum + delta,
        total(byCause(record, 'atStart')),
      );
      assert.equal(end, memory.restBytes);
    }
    const names = new Set(record.spans.map(({ name }) => name));
    assert.deepEqual([...names].sort(), ['backward', 'forward', 'optimizer']);
    for (const { start, end } of record.spans) assert.ok(record.start <= start && start <= end);
  }

  it('compares with the same loop on ranks of Node: equal collectives and shards', async (context) => {
    const node = await launch({ ranks: WORLD, blas: 'none' });
    context.after(() => node.shutdown());
    await launchAgain();
    await node.runCell({ js: NODE_LOOP, cell: 1, selection: 'all' }, () => undefined);
    job.record('FSDP2 beside Node');
    await python(`${setup('fsdp2', 'AdamW')}\n${loop('fsdp2', 0, 3)}`);
    for (const { step, rank } of node.view.records) {
      const [ours, theirs] = [node, job].map((one) =>
        one.view.records.find((record) => record.step === step && record.rank === rank),
      );
      assert.ok(ours !== undefined && theirs !== undefined);
      assert.deepEqual(callsOf(theirs), callsOf(ours));
      const [own, other] = [byCause(ours, 'atRest'), byCause(theirs, 'atRest')];
      assert.deepEqual([other['param.shard'], other['grad.shard']], [own['param.shard'], own['grad.shard']]);
      // torch's AdamW also has a count of steps per parameter, and its states have no padding, which only rank 1 has.
      assert.equal(other.optimizer, statesByFormula('fsdp2', 'AdamW', rank).optimizer);
      if (rank === 0) assert.equal(other.optimizer, (own.optimizer ?? 0) + 4 * NUM_PARAMETERS);
    }
    const both = { Node: node, PyTorch: job };
    assert.match(compare(both, 'comm').title, /^All runs receive the same/);
    assert.match(compare(both, 'memory').title, /PyTorch/);
    for (const what of ['memoryTimeline', 'timeline', 'loss'] as const) {
      assert.ok(compare(both, what).title.length > 0);
    }
    const named = { recorded: job.records['FSDP2 beside Node'] ?? assert.fail(), now: node };
    assert.match(compare(named, 'memory').title, /recorded/);
  });

  async function checkLosses(optimizer: string, strategy: StrategyName): Promise<void> {
    const byRank = (await job.get('losses')) as unknown as readonly number[][];
    const means = byRank[0]?.map((loss, i) => (loss + (byRank[1]?.[i] ?? Number.NaN)) / WORLD) ?? [];
    assert.deepEqual(job.losses, means);
    assert.equal(means.length, 5);
    if (strategy === 'plain') plainLosses[optimizer] = means;
    const reference = plainLosses[optimizer] ?? [];
    means.forEach((loss, i) => {
      assert.ok(
        Math.abs(loss - (reference[i] ?? Number.NaN)) < 1e-6,
        `step ${i + 1}: ${loss}, ${reference[i]}`,
      );
    });
  }
});

/** The same model and loop for ranks of Node. */
const NODE_LOOP = `
  class Block extends nn.Module {
    fc1 = new nn.Linear(6, 7);
    fc2 = new nn.Linear(7, 6);
    forward(x) { return tf.add(x, this.fc2.apply(tf.tanh(this.fc1.apply(x)))); }
  }
  class Net extends nn.Module {
    wte = new nn.Embedding(11, 6);
    blocks = new nn.ModuleList([new Block(), new Block()]);
    head = new nn.Linear(6, 11);
    forward(ids) {
      let x = this.wte.apply(ids);
      for (const block of this.blocks) x = block.apply(x);
      return this.head.apply(x);
    }
  }
  const model = new Net();
  for (const block of model.blocks) fullyShard(block);
  fullyShard(model);
  const opt = optim.adamW(model, { lr: 1e-2 });
  const ids = tf.randomUniform([2, 4], 0, 11, 'int32', 1);
  const targets = tf.randomUniform([8], 0, 11, 'int32', 2);
  for (let i = 0; i < 3; i++) {
    opt.zeroGrad();
    const pass = gradients(() => nn.functional.crossEntropy(model.apply(ids).reshape([-1, 11]), targets));
    pass.backward();
    opt.step();
    pass.loss.dispose();
  }
`;

function callsOf({ collectives }: StepRecord): object[] {
  return collectives.map(({ op, cause, module, count, bytes, wireBytes, wireDType }) => {
    return { op, cause, module, count, bytes, wireBytes, wireDType };
  });
}

function sorted(bytes: Readonly<Record<string, number>>): [string, number][] {
  return Object.entries(bytes).sort(([one], [two]) => (one < two ? -1 : 1));
}

function total(bytes: Readonly<Record<string, number>>): number {
  return Object.values(bytes).reduce((sum, one) => sum + one, 0);
}
