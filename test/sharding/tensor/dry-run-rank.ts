import type { CollectiveEvent, Observer, Tag } from '../../../src/core/events';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import type { Module } from '../../../src/nn/module';
import { fullyShard } from '../../../src/sharding/fsdp/fully-shard';
import { AdamW } from '../../../src/sharding/optim/adamw';
import { clipGradNorm } from '../../../src/sharding/optim/clip-grad-norm';
import { applyActivationCheckpointing } from '../../../src/sharding/recompute/apply-activation-checkpointing';
import { parallelizeTensors } from '../../../src/sharding/tensor/parallelize-tensors';
import { layersOf } from '../../../src/sharding/wrap-policy';
import { joinMetaWorld } from '../../../src/wire/dist/meta-world';
import { initializeModelParallel } from '../../../src/wire/dist/model-parallel';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { type RankArgs, runAsRank } from '../../support/rank-process';
import { modelOf, sizesOf } from './tensor-models';
import type { TensorRun } from './tensor-rank';

/** The events of a second step, with values and in a dry run. */
export interface PlannedResult {
  readonly real: readonly string[];
  readonly planned: readonly string[];
}

interface PlannedArgs extends RankArgs {
  readonly runs: readonly TensorRun[];
}

runAsRank<PlannedArgs>(({ engine, group, tally, args }) =>
  args.runs.map((run): PlannedResult => {
    const real = new EventLines();
    engine.observe(real);
    tally.restart();
    stepTwice(engine, group, tally, run, () => {
      real.isOn = true;
      tally.restart();
    });
    real.isOn = false;
    real.lines.push(...sentIn(tally.collectives));
    const planned = withMetaEngine({ blas: engine.blas.library !== null }, (meta) => {
      const lines = new EventLines();
      const sent: CollectiveEvent[] = [];
      const observer = { ...SILENT, collective: (event: CollectiveEvent) => void sent.push(event) };
      meta.observe(lines);
      const { rank, size: world } = group;
      const all = joinMetaWorld({ rank, world, engine: meta, observer });
      stepTwice(meta, all, observer, run, () => {
        lines.isOn = true;
        sent.length = 0;
      });
      lines.isOn = false;
      return [...lines.lines, ...sentIn(sent)];
    });
    return { real: real.lines, planned };
  }),
);

/** Collectives as text, sorted, because an asynchronous one is reported when it is done. */
function sentIn(events: readonly CollectiveEvent[]): string[] {
  const text = ({ op, cause, module, wireBytes, async: isAsync }: CollectiveEvent): string =>
    `${isAsync ? 'asynchronous ' : ''}${op} ${cause} ${module} ${wireBytes}`;
  return events.map(text).sort();
}

/** Allocations and frees as text. */
class EventLines implements Observer {
  readonly lines: string[] = [];
  isOn = false;
  readonly #bytes = new Map<unknown, number>();

  allocated(buffer: unknown, bytes: number, _dtype: string, tag: Tag): void {
    this.#bytes.set(buffer, bytes);
    if (this.isOn) this.lines.push(`allocated ${bytes} ${tag.cause} ${tag.module}`);
  }

  retagged(buffer: unknown, tag: Tag): void {
    if (this.isOn) this.lines.push(`retagged ${this.#bytes.get(buffer)} ${tag.cause} ${tag.module}`);
  }

  freed(buffer: unknown): void {
    if (this.isOn) this.lines.push(`freed ${this.#bytes.get(buffer)}`);
  }

  collective(): void {}

  span(): void {}
}

function stepTwice(
  engine: Engine,
  group: ProcessGroup,
  observer: Observer,
  run: TensorRun,
  second: () => void,
): void {
  const parallel = initializeModelParallel(group, { tensorModelParallelSize: run.tp });
  const model: Module = modelOf(run.model);
  const { sequenceParallel } = run;
  parallelizeTensors(model, { group: parallel.tp, warn: () => undefined }, { sequenceParallel });
  const context = { engine, observer, group: parallel.dp };
  if (run.recompute !== undefined) applyActivationCheckpointing(context, model, run.recompute, false);
  for (const module of [...layersOf(model), model]) fullyShard(module, context);
  const optimizer = new AdamW(engine, model, { lr: 1e-3 });
  const { vocab, seq } = sizesOf(run.model);
  for (let step = 0; step < 2; step++) {
    if (step === 1) second();
    const ids = tf.tensor2d(
      Int32Array.from({ length: 2 * seq }, (_, i) => (7 * i + step) % vocab),
      [2, seq],
      'int32',
    );
    const targets = tf.reshape(ids, [-1]);
    const pass = gradients(engine, () => model.apply(ids, targets) as tf.Tensor);
    pass.backward();
    tf.dispose([pass.loss, ids, targets]);
    const { scale } = clipGradNorm(engine, model, 1);
    optimizer.step(scale);
    optimizer.zeroGrad();
  }
  optimizer.dispose();
  for (const state of model.states()) state.dispose();
}
