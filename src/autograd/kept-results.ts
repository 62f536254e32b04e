import * as tf from '@tensorflow/tfjs';
import type { Engine } from '../backend/engine';
import { type TapeNode, tfjsState, untracked } from '../backend/tfjs-state';
import { ShardlabError } from '../core/errors';

interface Kept {
  readonly kernelName: string;
  readonly outputs: tf.Tensor[];
}

/**
 * Results of a region's chosen kernels: kept in its first forward, given back in the order of their calls in its second,
 * where those kernels do not run. Source: torch's create_selective_checkpoint_contexts.
 */
export class KeptResults {
  readonly #engine: Engine;
  readonly #kernels: ReadonlySet<string>;
  readonly #kept: Kept[] = [];
  #next = 0;

  constructor(engine: Engine, kernels: ReadonlySet<string>) {
    this.#engine = engine;
    this.#kernels = kernels;
  }

  /** What is kept now; entries may be replaced by tensors of the same values. */
  get slots(): readonly tf.Tensor[][] {
    return this.#kept.map(({ outputs }) => outputs);
  }

  /** Keeps an operation's outputs if they are to be. */
  note({ kernelName, outputs }: TapeNode): void {
    if (!this.#kernels.has(kernelName)) return;
    const { module } = this.#engine.currentTag;
    const kept: Kept = { kernelName, outputs: [] };
    this.#kept.push(kept);
    for (const output of outputs) {
      const view = untracked(() => tf.keep(tf.clone(output)));
      kept.outputs.push(view);
      if (this.#engine.tagOf(view).cause === 'temp')
        this.#engine.retag(view, { cause: 'activation', module });
    }
  }

  /** In the second forward: the outputs of a kernel's next call, recorded as if it had run. Throws: ENGINE when it was not the next one. */
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
    const outputs = inKernel(() => kept.outputs.map((output) => tf.clone(output)));
    tf.dispose(kept.outputs);
    tfjsState().activeTape.push(nodeOf(kernelName, inputs, outputs, attrs ?? {}));
    return outputs.length === 1 ? outputs[0] : outputs;
  };

  dispose(): void {
    for (const { outputs } of this.#kept) tf.dispose(outputs);
  }
}

/** Runs work as a kernel does: nothing is recorded. */
function inKernel<T>(work: () => T): T {
  const state = tfjsState();
  state.kernelDepth++;
  try {
    return work();
  } finally {
    state.kernelDepth--;
  }
}

/** What tfjs writes down of an operation. Source: tfjs-core 4.22, Engine.getTensorsForGradient and addTapeNode. */
function nodeOf(
  kernelName: string,
  inputs: tf.NamedTensorMap,
  outputs: tf.Tensor[],
  attrs: tf.NamedAttrMap,
): TapeNode {
  const node: TapeNode = { id: tfjsState().nextTapeNodeId++, kernelName, inputs, outputs };
  // tfjs answers undefined for a kernel without a gradient; its types do not say so.
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
    // tfjs passes null where an output was not used; its types do not say so.
    const whole = (dys as (tf.Tensor | null)[]).map((dy, i) => dy ?? tf.zerosLike(outputs[i] as tf.Tensor));
    return gradFunc(whole.length > 1 ? whole : (whole[0] as tf.Tensor), saved, attrs);
  };
  return node;
}
