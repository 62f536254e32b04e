import { untracked } from '../backend/tfjs-state';
import * as tf from '../core/tf';
import { HostStash } from './host-stash';
import type { KeptResults } from './kept-results';
import type { RegionCall } from './region-call';
import type { Surroundings } from './surroundings';

/** The tensors that a region keeps between its two forwards. */
export class HeldInputs {
  readonly results: KeptResults | null;
  readonly #call: RegionCall;
  readonly #stash: HostStash | null;
  readonly #ids: number[] = [];
  /**
   * Views of inputs, because callers may dispose the inputs; but not views of units' parameters, which must be freed.
   */
  readonly #views: tf.Tensor[] = [];
  /** Tensors that forward read and that tidy scopes would dispose before backward. */
  readonly #lent: tf.Tensor[] = [];

  constructor(call: RegionCall, results: KeptResults | null) {
    this.#call = call;
    this.results = results;
    this.#stash = call.region.offload === true ? new HostStash(call.engine) : null;
  }

  /** Called at the end of the first forward. */
  hold(surroundings: Surroundings): void {
    const { engine, region, outer, inputs } = this.#call;
    for (const input of inputs) {
      if (this.#ids.includes(input.id) || outer.parameterNow(input.id) !== undefined) continue;
      this.#ids.push(input.id);
      this.#views.push(untracked(() => tf.keep(tf.clone(input))));
    }
    // An input that was moved to the host cannot return into the same tensor.
    const given = new Set(this.#stash === null ? [] : this.#ids);
    for (const tensor of surroundings.shortLived(outer.firstScope)) {
      if (!given.has(tensor.id)) this.#lent.push(tf.keep(tensor));
    }
    for (const tensor of [...this.#views, ...this.#lent]) {
      if (engine.tagOf(tensor).cause === 'temp')
        engine.retag(tensor, { cause: 'activation', module: region.module });
    }
    this.#stash?.put([this.#views, ...(this.results?.slots ?? [])]);
  }

  /** Called at the start of the second forward: tensors on the host return to the device. */
  fetch(): void {
    this.#stash?.fetch();
  }

  /** The current tensor of an input: a parameter's new tensor, or the view of a disposed input. */
  now(input: tf.Tensor): tf.Tensor {
    const tensor = this.#call.outer.parameterNow(input.id) ?? input;
    return tensor.isDisposed ? (this.#views[this.#ids.indexOf(input.id)] ?? tensor) : tensor;
  }

  dispose(): void {
    tf.dispose([...this.#views, ...this.#lent]);
    this.results?.dispose();
    this.#stash?.dispose();
  }
}
