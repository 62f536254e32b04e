import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { isFolder } from '../../core';
import { type EvaluatedStep, savedEvaluations } from '../../launch';
import { isRunning, recoverFolder, stateOf } from '../../training';

const CHECKPOINT = /^checkpoint-(\d+)$/;
/** A checkpoint that is being deleted. It is renamed first, because a killed process would leave only some of its files. */
const DELETED = /^checkpoint-\d+\.deleted$/;
/** A folder that a killed save leaves beside its checkpoint. */
const LEFTOVER = /^checkpoint-(\d+)\.(?:saving|failed|previous)-/;
/** A model that is being exported; the name contains the mark of the exporting process. */
const EXPORTED = /\.(?:whole|saving)-(\d+-\d+)/;

/** The checkpoints of a training in one folder, with transformers' names: checkpoint-<step>. */
export class OutputFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = resolve(path);
  }

  /** Returns the folder of a step's checkpoint. */
  of(step: number): string {
    return join(this.path, `checkpoint-${step}`);
  }

  /** The steps that have a complete checkpoint, in order. */
  steps(): number[] {
    const names = isFolder(this.path) ? fs.readdirSync(this.path) : [];
    const steps = names.map((name) => Number(CHECKPOINT.exec(name)?.[1] ?? Number.NaN));
    return steps.filter((step) => stateOf(this.of(step)) !== undefined).sort((a, b) => a - b);
  }

  /**
   * Cleans up after a killed training: its last checkpoint, if it is complete, gets its final name; incomplete checkpoints are
   * deleted. No other training may write here. Throws: IO.
   */
  recover(): void {
    for (const name of isFolder(this.path) ? fs.readdirSync(this.path) : []) {
      const [, step] = LEFTOVER.exec(name) ?? [];
      const [, mark] = EXPORTED.exec(name) ?? [];
      if (step !== undefined) recoverFolder(fs, this.of(Number(step)));
      else if (DELETED.test(name) || (mark !== undefined && !isRunning(mark)))
        fs.rmSync(join(this.path, name), { recursive: true, force: true });
    }
  }

  /** Returns the checkpoint of the run with the least validation loss; undefined if there is none. */
  best(evaluations: readonly EvaluatedStep[]): EvaluatedStep | undefined {
    const saved = evaluations.filter(({ step, loss }) => {
      // Another training may have saved a checkpoint of the same step.
      const own = savedEvaluations(stateOf(this.of(step))?.trainer);
      return own.some((one) => one.step === step && one.loss === loss);
    });
    return saved.reduce<EvaluatedStep | undefined>(
      (best, one) => (best === undefined || one.loss < best.loss ? one : best),
      undefined,
    );
  }

  /**
   * Deletes the oldest checkpoints until `limit` remain; checkpoints after step `last`, which was just saved, do not count. The
   * best checkpoint always remains, so with limit 1 there may be two. Source: transformers' Trainer._rotate_checkpoints.
   */
  rotate(limit: number, last: number, best: number | undefined): void {
    const steps = this.steps().filter((step) => step <= last);
    const others = steps.filter((step) => step !== last && step !== best);
    const numKept = limit - (steps.length - others.length);
    for (const step of others.slice(0, others.length - Math.max(0, numKept))) {
      fs.rmSync(`${this.of(step)}.deleted`, { recursive: true, force: true });
      fs.renameSync(this.of(step), `${this.of(step)}.deleted`);
    }
    for (const name of fs.readdirSync(this.path)) {
      if (DELETED.test(name)) fs.rmSync(join(this.path, name), { recursive: true, force: true });
    }
  }
}
