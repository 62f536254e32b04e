import { type Bytes, tensorsIn } from '../../core';
import { runOffloaded } from '../../engine';
import type { Module, Next } from '../../nn';
import { type CheckpointContext, checkpointWrapperOf } from './checkpointed';
import { chooseLayers, type LayerChoice } from './choose-layers';
import { LayerMeter } from './layer-meter';

/** The result of activation checkpointing on a model's layers. */
export interface ActivationCheckpointing {
  /** Full names of the layers that run forward again; null if there is a budget and no forward has run yet. */
  readonly layers: readonly string[] | null;
  /** The choice of layers for a budget, when it is known. */
  readonly choice: LayerChoice | null;
}

/**
 * Checkpoints the layers that are cheapest to run again, so that saved bytes are within a budget.
 *
 * [Note: measured choice] The first forward checkpoints every layer, which needs the least memory, and counts each layer's
 * operations and the bytes that the layer would save without checkpointing. When this forward ends, the layers are chosen. The
 * counts depend only on shapes, so ranks with batches of the same shape choose the same layers without communication. Measured
 * times would differ between ranks and between runs.
 */
export class BudgetedLayers implements ActivationCheckpointing {
  readonly #layers: readonly Module[];
  readonly #meters: LayerMeter[];
  readonly #budgetBytes: Bytes;
  #choice: LayerChoice | null = null;
  #checkpointed: ReadonlySet<Module> = new Set();

  constructor(
    context: CheckpointContext,
    model: Module,
    layers: readonly Module[],
    budgetBytes: Bytes,
    offload: boolean,
  ) {
    this.#layers = layers;
    this.#budgetBytes = budgetBytes;
    this.#meters = layers.map(() => new LayerMeter(context.engine));
    layers.forEach((layer, i) => {
      this.#wrap(context, layer, i, offload);
    });
    model.wrap((inputs, next) => {
      if (this.#choice === null) for (const meter of this.#meters) meter.restart();
      const output = next(...inputs);
      this.#choose();
      return output;
    });
  }

  get choice(): LayerChoice | null {
    return this.#choice;
  }

  get layers(): readonly string[] | null {
    return this.#choice?.checkpointed.map((index) => this.#layers[index]?.path ?? '') ?? null;
  }

  #wrap(context: CheckpointContext, layer: Module, index: number, offload: boolean): void {
    const meter = this.#meters[index] as LayerMeter; // each layer has one meter
    const measured = checkpointWrapperOf(context, layer, { offload, meter: meter.meter });
    const chosen = checkpointWrapperOf(context, layer, { offload });
    const plain = (inputs: unknown[], next: Next): unknown =>
      offload ? runOffloaded(context.engine, layer.path, next, inputs) : next(...inputs);
    layer.wrap((inputs, next) => {
      if (this.#choice !== null) return (this.#checkpointed.has(layer) ? chosen : plain)(inputs, next);
      meter.noteInputs(tensorsIn(inputs));
      return measured(inputs, next);
    });
  }

  /** Chooses the layers after the first forward with gradients. Throws: CONFIG when the budget cannot be met. */
  #choose(): void {
    const costs = this.#meters.map(({ cost }) => cost);
    // A forward without gradients saves nothing.
    if (this.#choice !== null || costs.every(({ flops }) => flops === 0)) return;
    this.#choice = chooseLayers(costs, this.#budgetBytes);
    const indices = new Set(this.#choice.checkpointed);
    this.#checkpointed = new Set(this.#layers.filter((_, i) => indices.has(i)));
  }
}
