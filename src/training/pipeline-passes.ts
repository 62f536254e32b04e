import { microbatchesOf, type TrainConfig, virtualStagesOf } from '../config';
import { alias, type Observer, tensorsIn } from '../core';
import * as tf from '../core/tf';
import type { Engine, recordPart } from '../engine';
import type { Module } from '../nn';
import {
  microbatchIn,
  microbatchOf,
  PipelineSchedule,
  type PipelineStage,
  type parallelize,
  pipelineStages,
} from '../sharding';
import type { ProcessGroup } from '../wire';
import type { ModelPasses, PassUse } from './passes';
import type { Stopwatch } from './stopwatch';
import type { Task, TensorBatch } from './task';

/** The parts that a pipeline's passes need. */
export interface PipelineParts {
  readonly engine: Engine;
  readonly observer: Observer;
  readonly config: TrainConfig;
  /** The data-parallel group: its ranks train on different batches. */
  readonly group: ProcessGroup;
  readonly allRanks: ProcessGroup;
  /** The ranks that hold the stages of the model, in order of the stages. */
  readonly pipeline: ProcessGroup;
  /** Records the parts of a pipeline's microbatches; default `recordPart`. */
  readonly record?: typeof recordPart | undefined;
  /** Applies the strategy to a stage. */
  readonly parallelize: (stage: Module) => ReturnType<typeof parallelize>;
}

/**
 * Divides a model into stages and makes the passes of this rank's stages. The model's forward must not be called afterwards; the
 * names and shapes of its parameters stay. Throws: CONFIG if the model cannot be cut.
 */
export function pipelinePasses(model: Module, task: Task, parts: PipelineParts): ModelPasses {
  return new PipelinePasses(model, task, parts);
}

class PipelinePasses implements ModelPasses {
  readonly trained: PipelineSchedule<unknown>;
  readonly #model: Module;
  readonly #task: Task;
  readonly #parts: PipelineParts;
  readonly #stages: readonly ReturnType<typeof parallelize>[];
  #watch: Stopwatch | null = null;

  constructor(model: Module, task: Task, parts: PipelineParts) {
    const { engine, observer, config, record } = parts;
    const { schedule, noSync } = config.parallel;
    this.#model = model;
    this.#task = task;
    this.#parts = parts;
    const stages = this.#cut();
    this.#stages = stages.map((stage) => {
      const parallel = parts.parallelize(stage.submod);
      stage.keepLocal = noSync === false ? (work) => work() : parallel.keepLocal;
      return parallel;
    });
    const options = { numMicrobatches: microbatchesOf(config), lossFn: task.stages?.lossOf };
    this.trained = new PipelineSchedule<unknown>(schedule, stages, options, {
      engine,
      record,
      observer: {
        get reached() {
          return observer.reached;
        },
        span: (event) => {
          observer.span(event);
          this.#watch?.add(event.name, event.end - event.start);
        },
      },
    });
  }

  #cut(): PipelineStage[] {
    const { config, pipeline, group, allRanks, engine } = this.#parts;
    const { stageSplit: split } = config.parallel;
    const options = { group: pipeline, virtualStages: virtualStagesOf(config.parallel), split };
    if (split !== 'time') return pipelineStages(this.#model, options);
    const count = microbatchesOf(config);
    const batch = this.#task.batch(group.rank, 0);
    const whole = this.#inputsOf(batch);
    const x = microbatchOf(engine, whole.x, 0, count);
    const target = microbatchIn(engine, whole.target, 0, count);
    try {
      const example = { x, target, lossFn: this.#task.stages?.lossOf };
      return pipelineStages(this.#model, { ...options, example }, { engine, world: allRanks });
    } finally {
      tf.dispose([x, ...tensorsIn(target), ...batch.tensors]);
    }
  }

  accumulate<T>(work: () => T): T {
    return this.#stages.reduce<() => T>((inner, stage) => () => stage.accumulate(inner), work)();
  }

  abandon(): void {
    for (const stage of this.#stages) stage.abandon();
  }

  dispose(): void {
    for (const stage of this.#stages) stage.dispose();
  }

  run(batch: TensorBatch, use: PassUse, watch: Stopwatch): number {
    const { x, target } = this.#inputsOf(batch);
    this.#watch = watch;
    try {
      return this.trained.step(x, { target, ...use }) ?? Number.NaN;
    } finally {
      this.#watch = null;
    }
  }

  shared(value: number, cause: 'loss' | 'control'): number {
    const { engine, pipeline } = this.#parts;
    const tensor = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor([value], [1], 'float32'));
    try {
      pipeline.broadcast(tensor, pipeline.size - 1, { cause }).wait();
      return tensor.dataSync()[0] ?? Number.NaN;
    } finally {
      tensor.dispose();
    }
  }

  lossOf(batch: TensorBatch): number {
    const { x, target } = this.#inputsOf(batch);
    const loss = this.trained.evaluate(x, { target });
    const value = loss?.dataSync()[0] ?? Number.NaN;
    loss?.dispose();
    return this.shared(value, 'loss');
  }

  outputOf(input: tf.Tensor): tf.Tensor | null {
    const output = this.trained.evaluate(input);
    if (output === null) return null;
    const tracked = alias(output);
    output.dispose();
    return tracked;
  }

  train(mode: boolean): void {
    for (const { submod } of this.trained.stages) submod.train(mode);
    this.#model.train(mode);
  }

  #inputsOf(batch: TensorBatch): { readonly x: tf.Tensor; readonly target: unknown } {
    // A model whose task has no `stages` was refused when it was cut.
    return this.#task.stages?.inputsOf(batch) ?? { x: batch.tensors[0] as tf.Tensor, target: undefined };
  }
}
