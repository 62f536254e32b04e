import * as tf from '@tensorflow/tfjs';
import { gradients } from '../autograd/unit';
import type { Engine } from '../backend/engine';
import type { TrainConfig } from '../config/train-config';
import type { Observer } from '../core/events';
import { type BatchSource, inputsOf, targetsOf } from '../data/batch';
import { createBatches } from '../data/batches';
import type { ProcessGroup } from '../dist/types';
import { freeze } from '../nn/freeze';
import { loadState, type StateDict } from '../nn/load-state';
import { buildModel } from '../nn/models/build-model';
import type { Module } from '../nn/module';
import { AdamW } from '../optim/adamw';
import { clipGradNorm } from '../optim/clip-grad-norm';
import { type ParallelModel, parallelize } from '../parallel/parallelize';
import type { StepResult } from './step-result';
import { Stopwatch } from './stopwatch';

/** What a trainer is made of. */
export interface TrainerOptions {
  readonly config: TrainConfig;
  readonly engine: Engine;
  /** The data-parallel ranks. */
  readonly group: ProcessGroup;
  readonly observer: Observer;
  /** Initial parameters by name; default: from the config's seed. */
  readonly initialState?: StateDict | undefined;
  /** Default: what the config names. */
  readonly batches?: BatchSource | undefined;
}

/** What of a training is neither a parameter nor a state of the optimizer; plain JSON. */
export interface TrainerCounters {
  /** Steps taken: they say which batches come next. */
  readonly steps: number;
  /** Updates that the optimizer has made. */
  readonly optimizerSteps: number;
}

/** Trains a config's model on one rank; all ranks of the group step together. */
export interface Trainer {
  readonly config: TrainConfig;
  readonly model: Module;
  readonly optimizer: AdamW;
  /** Steps taken. */
  readonly steps: number;
  readonly counters: TrainerCounters;
  /** Goes on where another trainer was; parameters and optimizer states are written apart. */
  restore(counters: TrainerCounters): void;
  /** One step. Gradients stay until the next one begins. */
  step(): StepResult;
  /**
   * Makes the trainer usable after an interrupted step, once engine and group have recovered: gradients and whole copies
   * go. A step that was interrupted in its optimizer's update stays partly done.
   */
  recover(): void;
  dispose(): void;
}

/** Builds model, strategy, data and optimizer of a config. */
export function createTrainer(options: TrainerOptions): Trainer {
  return new GptTrainer(options);
}

class GptTrainer implements Trainer {
  readonly config: TrainConfig;
  readonly optimizer: AdamW;
  readonly #options: TrainerOptions;
  readonly #parallel: ParallelModel;
  readonly #batches: BatchSource;
  #steps = 0;

  constructor(options: TrainerOptions) {
    const { config, engine, initialState } = options;
    this.config = config;
    this.#options = options;
    const model = buildModel(config);
    if (initialState !== undefined) loadState(engine, model, initialState);
    freeze(model, config.frozen);
    this.#batches = options.batches ?? createBatches(config);
    this.#parallel = parallelize(model, config, options);
    this.optimizer = new AdamW(engine, model, config.optimizer);
  }

  get model(): Module {
    return this.#parallel.model;
  }

  get steps(): number {
    return this.#steps;
  }

  get counters(): TrainerCounters {
    return { steps: this.#steps, optimizerSteps: this.optimizer.steps };
  }

  restore({ steps, optimizerSteps }: TrainerCounters): void {
    this.#steps = steps;
    this.optimizer.restore(optimizerSteps);
  }

  step(): StepResult {
    const watch = new Stopwatch(this.#options.observer);
    const { engine, group } = this.#options;
    const { accumulation, clipNorm } = this.config;
    let loss = 0;
    let gradNorm = 0;
    let tokens = 0;
    watch.span('step', () => {
      this.optimizer.zeroGrad();
      for (let micro = 0; micro < accumulation; micro++) {
        const isLast = micro === accumulation - 1;
        const run = (): MicroBatch => this.#microBatch(watch, micro);
        const done = isLast ? run() : this.#parallel.accumulate(run);
        loss += done.loss / accumulation;
        tokens += done.tokens * group.size;
      }
      watch.span('optimizer', () => {
        const { norm, scale } = clipGradNorm(engine, this.model, clipNorm);
        gradNorm = norm;
        this.optimizer.step(scale);
      });
      loss = watch.span('loss', () => this.#meanOverRanks(loss));
    });
    this.#steps++;
    const [data, forward, backward] = [
      watch.seconds('data'),
      watch.seconds('forward'),
      watch.seconds('backward'),
    ];
    const spans = {
      data,
      forward,
      backward,
      loss: watch.seconds('loss'),
      optimizer: watch.seconds('optimizer'),
    };
    return { step: this.#steps, loss, gradNorm, tokens, seconds: watch.seconds('step'), spans };
  }

  recover(): void {
    this.#parallel.abandon();
  }

  dispose(): void {
    this.optimizer.dispose();
    this.#parallel.dispose();
  }

  /** Forward and backward of one micro-batch; its gradients are those of its share of the step's mean loss. */
  #microBatch(watch: Stopwatch, micro: number): MicroBatch {
    const { engine } = this.#options;
    const { accumulation } = this.config;
    const { ids, targets } = watch.span('data', () => this.#tensors(this.#steps * accumulation + micro));
    try {
      const pass = watch.sum('forward', () => gradients(engine, () => this.model.apply(ids, targets)));
      try {
        const loss = pass.loss.dataSync()[0] ?? Number.NaN;
        watch.sum('backward', () => pass.backward(1 / accumulation));
        return { loss, tokens: targets.size };
      } finally {
        pass.loss.dispose();
      }
    } finally {
      ids.dispose();
      targets.dispose();
    }
  }

  #tensors(index: number): { readonly ids: tf.Tensor; readonly targets: tf.Tensor } {
    const tokens = this.#batches.batch(this.#options.group.rank, index);
    const { batch, seq } = tokens;
    return this.#options.engine.tagged({ cause: 'batch', module: '' }, () => ({
      ids: tf.tensor(inputsOf(tokens), [batch, seq], 'int32'),
      targets: tf.tensor(targetsOf(tokens), [batch * seq], 'int32'),
    }));
  }

  #meanOverRanks(loss: number): number {
    const { engine, group } = this.#options;
    const tensor = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor([loss], [1], 'float32'));
    try {
      group.allReduce(tensor, 'avg', { cause: 'loss' }).wait();
      return tensor.dataSync()[0] ?? Number.NaN;
    } finally {
      tensor.dispose();
    }
  }
}

interface MicroBatch {
  readonly loss: number;
  readonly tokens: number;
}
