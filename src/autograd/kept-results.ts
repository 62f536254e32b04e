import type { Engine } from '../backend/engine';
import { type TapeNode, tfjsState, untracked, watchHostReads } from '../backend/tfjs-state';
import { ShardlabError } from '../core/errors';
import * as tf from '../core/tf';

interface Kept {
  readonly kernelName: string;
  /** Empty once it is known that no operation needs them. */
  readonly outputs: tf.Tensor[];
  /** Buffers of the outputs. */
  readonly buffers: readonly object[];
  readonly shapes: readonly number[][];
  /** Sum of squares of the values that the operation read. */
  readonly sumOfSquares: number;
}

/**
 * Results of a region's chosen kernels. The first forward stores them; the second forward gets them back in the order
 * of their calls, and does not run these kernels. Source: torch's create_selective_checkpoint_contexts.
 *
 * [Note: results that nobody reads] A block's last matmul is read by the addition after it, and no gradient in the
 * block reads that sum, so storing it would be useless. Such results are released at the end of the first forward; the
 * second forward gets NaN in their place, and so do all values that are computed from them. Then the region's own
 * result cannot be compared; the inputs of the chosen kernels are compared instead.
 */
export class KeptResults {
  readonly #engine: Engine;
  readonly #kernels: ReadonlySet<string>;
  readonly #kept: Kept[] = [];
  readonly #reads = new Reads();
  #endWatch: () => void;
  #isValueRead = true;
  #next = 0;

  constructor(engine: Engine, kernels: ReadonlySet<string>) {
    this.#engine = engine;
    this.#kernels = kernels;
    this.#endWatch = watchHostReads((buffer) => this.#reads.noteByCode(buffer));
  }

  /** The stored tensors; the caller may replace entries by tensors of the same values. */
  get slots(): readonly tf.Tensor[][] {
    return this.#kept.map(({ outputs }) => outputs);
  }

  /** Stores an operation's outputs if its kernel is chosen. `saved`: tensors whose values its gradient reads. */
  note(node: TapeNode, inputs: readonly tf.Tensor[], saved: readonly tf.Tensor[]): void {
    const { kernelName, outputs } = node;
    const isKept = this.#kernels.has(kernelName);
    this.#reads.note(node, inputs, saved, !isKept);
    if (!isKept) return;
    const { module } = this.#engine.currentTag;
    const kept: Kept = {
      kernelName,
      outputs: [],
      buffers: outputs.map(({ dataId }) => dataId),
      shapes: outputs.map(({ shape }) => shape),
      sumOfSquares: this.#sumOfSquares(inputs),
    };
    this.#kept.push(kept);
    for (const output of outputs) {
      const view = untracked(() => tf.keep(tf.clone(output)));
      kept.outputs.push(view);
      if (this.#engine.tagOf(view).cause === 'temp')
        this.#engine.retag(view, { cause: 'activation', module });
    }
  }

  /** Whether the second forward must give the first one's result. [Note: results that nobody reads] */
  get isValueRead(): boolean {
    return this.#isValueRead;
  }

  /** Called with the first forward's result: releases the tensors that no operation will read. */
  settle(value: tf.Tensor): void {
    this.#endWatch();
    const needed = this.#reads.needed();
    for (const { outputs, buffers } of this.#kept) {
      if (buffers.some((buffer) => needed.has(buffer))) continue;
      tf.dispose(outputs.splice(0));
      this.#isValueRead = needed.has(value.dataId);
    }
  }

  /**
   * In the second forward: the outputs of a kernel's next call, recorded as if the kernel had run. Throws: ENGINE when
   * another kernel was next, or when it reads other values.
   */
  readonly giveBack = (
    kernelName: string,
    inputs: tf.NamedTensorMap,
    attrs: tf.NamedAttrMap | undefined,
  ): tf.Tensor | tf.Tensor[] | undefined => {
    if (!this.#kernels.has(kernelName)) return undefined;
    const kept = this.#kept[this.#next++];
    if (kept?.kernelName !== kernelName) {
      throw new ShardlabError(
        'ENGINE',
        `The second forward of a checkpointed module called ${kernelName} where its first called ` +
          `${kept?.kernelName ?? 'nothing more'}. It must call the same operations both times.`,
      );
    }
    this.#requireSameInputs(kept, inputs);
    const outputs = inKernel(() =>
      kept.shapes.map((shape, i) => {
        const output = kept.outputs[i];
        return output === undefined ? tf.fill(shape, Number.NaN) : tf.clone(output);
      }),
    );
    tf.dispose(kept.outputs);
    tfjsState().activeTape.push(nodeOf(kernelName, inputs, outputs, attrs ?? {}));
    return outputs.length === 1 ? outputs[0] : outputs;
  };

  /** Called at the end of the second forward. Throws: ENGINE when it did not call some of the kernels. */
  requireAllGiven(): void {
    const missing = this.#kept[this.#next];
    if (missing === undefined) return;
    throw new ShardlabError(
      'ENGINE',
      `The second forward of a checkpointed module ended before ${missing.kernelName}, which its first called. It must ` +
        'call the same operations both times.',
    );
  }

  dispose(): void {
    this.#endWatch();
    for (const { outputs } of this.#kept) tf.dispose(outputs);
  }

  #requireSameInputs({ kernelName, sumOfSquares }: Kept, inputs: tf.NamedTensorMap): void {
    const sum = this.#sumOfSquares(Object.values(inputs));
    // Also NaN if it is computed from a result that nobody reads.
    if (sum === sumOfSquares || Number.isNaN(sum) || Number.isNaN(sumOfSquares)) return;
    throw new ShardlabError(
      'ENGINE',
      `The second forward of a checkpointed module gave ${kernelName} values with the sum of squares ${sum}, the first ` +
        `${sumOfSquares}. A checkpointed module must compute the same both times: give its random operations a seed, and ` +
        'let it change no state.',
    );
  }

  #sumOfSquares(inputs: readonly (tf.Tensor | null | undefined)[]): number {
    return inputs.reduce(
      (sum, input) => sum + (input?.dtype === 'float32' ? this.#engine.sumOfSquares(input) : 0),
      0,
    );
  }
}

/** Runs `work` as a kernel runs: nothing is recorded. */
function inKernel<T>(work: () => T): T {
  const state = tfjsState();
  state.kernelDepth++;
  try {
    return work();
  } finally {
    state.kernelDepth--;
  }
}

/**
 * The tape node that tfjs would make for an operation. Source: tfjs-core 4.22, Engine.getTensorsForGradient and
 * addTapeNode.
 */
function nodeOf(
  kernelName: string,
  inputs: tf.NamedTensorMap,
  outputs: tf.Tensor[],
  attrs: tf.NamedAttrMap,
): TapeNode {
  const node: TapeNode = { id: tfjsState().nextTapeNodeId++, kernelName, inputs, outputs };
  // tfjs returns undefined for a kernel without a gradient; its types do not say so.
  const config = tf.getGradient(kernelName) as tf.GradConfig | undefined;
  if (config === undefined) return node;
  const { inputsToSave = [], outputsToSave = [], saveAllInputs, gradFunc } = config;
  const names = saveAllInputs === true ? Object.keys(inputs) : inputsToSave;
  const used = [
    ...names.flatMap((name) => inputs[name] ?? []),
    ...outputs.filter((_, i) => outputsToSave[i]),
  ];
  const saved = inKernel(() => used.map((tensor) => tf.keep(tf.clone(tensor))));
  node.saved = saved;
  node.gradient = (dys) => {
    // tfjs passes null for an unused output; its types do not say so.
    const whole = (dys as (tf.Tensor | null)[]).map((dy, i) => dy ?? tf.zerosLike(outputs[i] as tf.Tensor));
    return gradFunc(whole.length > 1 ? whole : (whole[0] as tf.Tensor), saved, attrs);
  };
  return node;
}

interface Operation {
  readonly inputs: readonly object[];
  readonly outputs: readonly object[];
  readonly saved: readonly object[];
  readonly runsAgain: boolean;
}

/**
 * Which values of a region's first forward are needed again: values that gradients read, inputs of the operations that
 * recompute these values, and values that model code itself read. Values are identified by their buffers, because views
 * share buffers.
 */
class Reads {
  readonly #operations: Operation[] = [];
  readonly #byCode = new Set<object>();

  /** `saved`: the saved tensors whose values the operation's gradient reads. */
  note(node: TapeNode, inputs: readonly tf.Tensor[], saved: readonly tf.Tensor[], runsAgain: boolean): void {
    const { kernelName, outputs } = node;
    // tfjs returns undefined if there is none, as for tf.customGrad, whose gradient may use any tensor.
    const isKnown = (tf.getGradient(kernelName) as tf.GradConfig | undefined) !== undefined;
    this.#operations.push({
      inputs: buffersOf(inputs),
      outputs: buffersOf(outputs),
      saved: buffersOf(isKnown ? saved : [...inputs, ...outputs]),
      runsAgain,
    });
  }

  /** Notes that model code read a buffer. */
  noteByCode(buffer: object): void {
    this.#byCode.add(buffer);
  }

  needed(): ReadonlySet<object> {
    const needed = new Set(this.#byCode);
    for (const { inputs, outputs, saved, runsAgain } of this.#operations.toReversed()) {
      for (const buffer of saved) needed.add(buffer);
      if (!runsAgain || !outputs.some((buffer) => needed.has(buffer))) continue;
      for (const buffer of inputs) needed.add(buffer);
    }
    return needed;
  }
}

function buffersOf(tensors: readonly tf.Tensor[]): object[] {
  return tensors.map(({ dataId }) => dataId);
}
