import type { Engine } from '../backend/engine';
import { readSafetensors } from '../checkpoint/safetensors';
import type { TrainConfig } from '../config/train-config';
import { ShardlabError } from '../core/errors';
import type { ProcessGroup } from '../dist/types';
import { explainProcess } from '../ledger/process-memory';
import type { Recorder } from '../ledger/recorder';
import type { StepResult } from '../train/step-result';
import type { Trainer } from '../train/trainer';
import type { RankStep } from './messages';

/** Steps of a call, from the newest back, of which every allocation and free is sent. */
const NUM_CURVES = 2;

/** Buffers of cells and functions belong to no run. */
const NO_RUN = 0;

/** Between a rank's steps. */
export interface StepCourier {
  mayStep(index: number): boolean;
  done(step: RankStep): void;
}

/** What a rank trains with. */
export interface RankTrainingParts {
  readonly rank: number;
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly recorder: Recorder;
}

/** The runs of one rank, by their number in the job. */
export class RankTraining {
  readonly #parts: RankTrainingParts;
  readonly #trainers = new Map<number, Trainer>();
  #isStepping = false;

  constructor(parts: RankTrainingParts) {
    this.#parts = parts;
  }

  /** Whether a run's step is on the stack: no cell called what happens in it. */
  get isStepping(): boolean {
    return this.#isStepping;
  }

  /** Builds a run's model and gives its number of parameters. The config was checked by the launcher. */
  async create(run: number, config: TrainConfig, init: string | undefined): Promise<number> {
    // Loaded when first needed: ranks that never train start sooner.
    const { createTrainer } = await import('../train/trainer.js');
    const { engine, group, recorder } = this.#parts;
    const initialState = init === undefined ? undefined : readSafetensors(init);
    const trainer = this.#within(run, () =>
      createTrainer({ config, engine, group, observer: recorder, initialState }),
    );
    this.#trainers.set(run, trainer);
    return trainer.model.numParams();
  }

  /** Steps as far as it is granted; each is told when it is done. */
  async steps(run: number, numSteps: number, courier: StepCourier): Promise<void> {
    for (let i = 0; courier.mayStep(i); i++) {
      // Every allocation of the first step, in case of an early end, and of the newest ones.
      const curve = i === 0 || numSteps - i <= NUM_CURVES;
      courier.done(this.#within(run, () => this.#step(run, curve)));
      // Messages to this thread get their turn.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #step(run: number, curve: boolean): RankStep {
    const trainer = this.#trainer(run);
    const { engine, group, recorder } = this.#parts;
    recorder.beginStep(trainer.steps + 1);
    const result = this.#stepOf(trainer);
    const memory = engine.memory;
    const record = recorder.endStep({
      loss: result.loss,
      tokens: result.tokens / group.size,
      engineBytes: memory.bytes,
      process: explainProcess(process.memoryUsage(), memory),
      curve,
    });
    return { result, record };
  }

  #stepOf(trainer: Trainer): StepResult {
    this.#isStepping = true;
    try {
      return trainer.step();
    } finally {
      this.#isStepping = false;
    }
  }

  /** Counts the buffers that `work` makes as the run's. */
  #within<T>(run: number, work: () => T): T {
    const { recorder } = this.#parts;
    recorder.enter(run);
    try {
      return work();
    } finally {
      recorder.enter(NO_RUN);
    }
  }

  /** Makes all runs usable again after work was broken off: V8 may have left out its `finally`. */
  recover(): void {
    this.#isStepping = false;
    this.#parts.recorder.enter(NO_RUN);
    for (const trainer of this.#trainers.values()) trainer.recover();
  }

  dispose(run: number): void {
    this.#trainers.get(run)?.dispose();
    this.#trainers.delete(run);
  }

  #trainer(run: number): Trainer {
    const trainer = this.#trainers.get(run);
    if (trainer !== undefined) return trainer;
    throw new ShardlabError('INTERNAL', `rank ${this.#parts.rank} has no run ${run}`, {
      rank: this.#parts.rank,
    });
  }
}
