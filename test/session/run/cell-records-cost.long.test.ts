import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serialize } from 'node:v8';
import type { Observer } from '../../../src/core/events';
import type { RankScope } from '../../../src/launch/rank/scope';
import { Recorder } from '../../../src/ledger/recorder';
import { launchFor } from '../job-fixture';

type Method = 'allocated' | 'retagged' | 'freed';

/** The calls of a recorder within one step, each with the arguments of `allocated`. */
type Calls = (readonly [Method, Parameters<Observer['allocated']>])[];

const NUM_STEPS = 40;
const BATCH = 20;
/** CellSteps spends at most this share of the time on records. */
const MOST_TIME = 0.01;

/** Trains a model in a rank and returns the calls that its recorder got in one step. */
function trained(scope: RankScope, kind: 'tiny' | 'own', steps: number): Calls {
  const { nn, tf, engine, optim, gradients, fullyShard, rank } = scope;
  class Net extends nn.Module {
    readonly first = new nn.Linear(128, 256);
    readonly second = new nn.Linear(256, 256);
    readonly last = new nn.Linear(256, 1);
    forward(x: ReturnType<typeof tf.tensor>) {
      const h = tf.relu(this.second.apply(tf.relu(this.first.apply(x))));
      return tf.mean(tf.square(this.last.apply(h)));
    }
  }
  const isOwn = kind === 'own';
  const gpt = () => nn.gpt({ layers: 4, dim: 128, heads: 4, vocab: 2048, seq: 64, tied: true });
  const net = isOwn ? new Net() : gpt();
  fullyShard(net);
  const optimizer = optim.adamW(net, { lr: 1e-3 });
  const tokens = tf.randomUniform([4, 65], 0, 2048, 'int32', rank + 1);
  const inputs = isOwn
    ? [tf.randomNormal([64, 128])]
    : [tokens.slice([0, 0], [4, 64]), tokens.slice([0, 1], [4, 64]).flatten()];
  const calls: Calls = [];
  for (let step = 0; step < steps; step++) {
    // The last step is slower, because it notes the calls.
    if (step === steps - 1) {
      const live = engine.memory.numBuffers;
      let numSeen = 0;
      engine.observe({
        allocated: (...args) => {
          // First, the engine reports all live buffers.
          if (numSeen++ >= live) calls.push(['allocated', args]);
        },
        retagged: (id, tag) => calls.push(['retagged', [id, 0, 'float32', tag, 'device']]),
        freed: (id) => calls.push(['freed', [id, 0, 'float32', { cause: 'temp', module: '' }, 'device']]),
        collective: () => undefined,
        span: () => undefined,
      });
    }
    optimizer.zeroGrad();
    const pass = gradients(() => net.apply(...(inputs as [ReturnType<typeof tf.tensor>])));
    pass.backward();
    pass.loss.dispose();
    optimizer.step();
  }
  return rank === 0 ? calls : [];
}

/** Returns the CPU seconds per call of `work`: of the best of many batches, because the machine may be busy. */
function cpuSeconds(work: () => void): number {
  const batches = Array.from({ length: 60 }, () => {
    const start = process.cpuUsage();
    for (let i = 0; i < BATCH; i++) work();
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1e6 / BATCH;
  });
  return Math.min(...batches);
}

/*
 * A step of a busy machine varies by far more than 2%. So the calls of a step's recorder are repeated on a recorder of their
 * own, and their CPU time is compared with the CPU time of the step's main thread.
 */
test('records cost a step of a cell under 2% of its CPU time', async (context) => {
  const job = await launchFor(context, { ranks: 2, blas: 'auto' });
  for (const kind of ['tiny', 'own'] as const) {
    job.record(kind);
    const [calls = []] = await job.on('all').run(trained, kind, NUM_STEPS);
    const records = job.view.records.filter(({ rank }) => rank === 0);
    const step = Math.min(
      ...records.slice(0, -1).map(({ startCpu = 0, endCpu = Number.NaN }) => endCpu - startCpu),
    );
    const { collectives = [], spans = [] } = records.at(-1) ?? {};

    const recorder = new Recorder({ rank: 0, world: 2 });
    recorder.beginStep(1);
    const observed = [...collectives].map((one) => ({ kind: 'collective', ...one }) as const);
    const repeated = calls.map(([method, args]): (() => void) => {
      const [id, bytes, dtype, tag, space] = args;
      if (method === 'allocated') return () => recorder.allocated(id, bytes, dtype, tag, space);
      return method === 'freed' ? () => recorder.freed(id) : () => recorder.retagged(id, tag);
    });
    let ended = recorder.cut(recorder.moment());
    const events = cpuSeconds(() => {
      for (const call of repeated) call();
      for (const one of observed) recorder.collective(one);
      for (const one of spans) recorder.span({ kind: 'span', ...one });
      ended = recorder.cut(recorder.moment());
    });
    const record = cpuSeconds(() => serialize(recorder.recordOf(ended, { curve: false })));
    const share = (events + Math.min(record, MOST_TIME * step)) / step;
    context.diagnostic(
      `${kind}: ${calls.length} events, ${(step * 1e3).toFixed(2)} ms per step; events ${(events * 1e6).toFixed(0)} µs, record ` +
        `${(record * 1e6).toFixed(0)} µs: ${(share * 100).toFixed(2)}%`,
    );
    assert.ok(Number.isFinite(step), `${kind}: no CPU time of a step is known`);
    assert.ok(share < 0.02, `${kind}: ${share}`);
  }
});
