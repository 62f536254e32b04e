import { alias, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { type Engine, untracked } from '../../engine';
import { type CollectiveOptions, type ProcessGroup, signatureOf, type Work } from '../../wire';
import { settled } from '../settled';
import type { Action } from './schedules';

/** The kinds of messages that stages send to each other. */
type Content = 'output' | 'gradient';

/** A tensor that passes from one stage to a neighbour. */
export interface StageMessage {
  /** 'output': a stage's output, for the next stage; 'gradient': the gradient of that output, from the next stage. */
  readonly content: Content;
  /** The stage that computed the output; for a gradient, the stage that receives it. */
  readonly stage: number;
  readonly microbatch: number;
}

/** The position of this rank in a pipeline, and the actions of all ranks. */
export interface MailOptions {
  readonly engine: Engine;
  /** The ranks of the pipeline. */
  readonly group: ProcessGroup;
  readonly numStages: number;
  readonly actions: readonly (readonly Action[])[];
  /** A text that names the schedule; ranks compare these texts. */
  readonly schedule: string;
  /** Returns the shape of stages' outputs. Only dry runs use this function, because they cannot receive the shape as values. */
  readonly shape: () => readonly number[];
}

/** A sent message; this rank holds its values until the send has ended. */
interface Sent {
  /** The number of actions that were complete when the message was sent. */
  readonly action: number;
  readonly work: Work<void>;
  readonly tensor: tf.Tensor;
}

/** Before an action, the rank waits for sends that are at least this many actions old. See [Note: order of messages]. */
export const MOST_ACTIONS_UNSENT = 3;

/** The largest number of dims of a tensor that stages send. */
const MOST_DIMS = 7;

/**
 * Sends and receives the tensors of one step of a pipeline.
 *
 * [Note: order of messages] Messages between two ranks arrive in the order in which the sender's schedule sends them. The
 * receiver may need the messages in another order, because with virtual stages outputs and gradients travel in the same
 * direction. The schedule of every rank is known, so a rank receives in the sender's order and stores the messages that it
 * needs later. Sends run on the comm thread. A sent tensor is held for two more actions; then the rank waits until the tensor
 * has been received. So memory does not depend on when the comm thread ends a send, and ranks cannot wait for each other in a
 * circle. Tests simulate all schedules; if tensors were held for fewer actions, the ranks of 'interleaved' would wait for each
 * other in a circle. Sender and receiver compare which message they expect, so a microbatch that only one of them skips is an
 * error. Before its first output, each stage sends a message with the output's shape. With this message, ranks also compare their
 * schedules.
 */
export class Mail {
  readonly #options: MailOptions;
  /** By sender, the messages that this rank still has to receive. */
  readonly #expected: readonly StageMessage[][];
  readonly #stored = new Map<string, tf.Tensor>();
  readonly #sent: Sent[] = [];
  #action = 0;
  /** By stage, the shape of its outputs in this step. */
  readonly #shapes = new Map<number, readonly number[]>();

  constructor(options: MailOptions) {
    this.#options = options;
    const { group, actions } = options;
    this.#expected = actions.map((own, from) =>
      own
        .flatMap((action) => messagesOf(action, from, options))
        .filter((message) => {
          return from !== group.rank && this.#receiverOf(message) === group.rank;
        }),
    );
  }

  /** Sends a tensor, which the caller still owns. */
  send(message: StageMessage, tensor: tf.Tensor): void {
    const { group } = this.#options;
    const { content, stage } = message;
    const to = this.#receiverOf(message);
    if (to === group.rank) {
      this.#stored.set(
        keyOf(message),
        untracked(() => tf.keep(alias(tensor))),
      );
      return;
    }
    if (content === 'output' && !this.#shapes.has(stage)) {
      const header = untracked(() => tf.tensor1d(headerOf(tensor.shape), 'int32'));
      this.#post(header, to, this.#headerOptions(message));
      header.dispose();
      this.#shapes.set(stage, tensor.shape);
    }
    this.#post(tensor, to, optionsOf(message));
  }

  /** Must be called before each action: frees tensors that were sent some actions ago, after the receiver has them. */
  nextAction(): void {
    this.#action++;
    this.#settle(({ action }) => this.#action - action >= MOST_ACTIONS_UNSENT);
  }

  /**
   * Returns the tensor of a message; the caller owns it. If the message has not been received yet, receives it and all messages
   * before it from the same sender.
   */
  take(message: StageMessage): tf.Tensor {
    const key = keyOf(message);
    const from = this.#senderOf(message);
    const expected = this.#expected[from] ?? [];
    while (!this.#stored.has(key) && expected.length > 0) {
      const next = expected[0] as StageMessage; // the list is not empty
      this.#stored.set(keyOf(next), this.#receive(next, from));
      expected.shift();
    }
    const tensor = this.#stored.get(key) as tf.Tensor; // every message of the schedule is expected once
    this.#stored.delete(key);
    return tensor;
  }

  /** Returns the shape of a stage's outputs; this rank must have sent or received one of these outputs. */
  shapeOf(stage: number): number[] {
    return [...(this.#shapes.get(stage) ?? [])];
  }

  /** Waits until all sends have ended. */
  finish(): void {
    this.#settle(() => true);
  }

  /**
   * Returns the error that explains why a step failed. After a mismatch, errors of later calls say only that the group is
   * broken. The error of the first send that failed says which calls differ.
   */
  causeOf(error: unknown): unknown {
    if (!(error instanceof ShardlabError) || error.code !== 'COLLECTIVE_MISMATCH') return error;
    for (const { work } of this.#sent) {
      try {
        work.wait();
      } catch (first) {
        return first;
      }
    }
    return error;
  }

  /** Frees the tensors that were sent and received for a step that failed. */
  abandon(): void {
    for (const { work, tensor } of this.#sent.splice(0)) {
      if (work.done) settled(work);
      tensor.dispose();
    }
    for (const tensor of this.#stored.values()) tensor.dispose();
    this.#stored.clear();
  }

  #post(tensor: tf.Tensor, to: number, options: CollectiveOptions): void {
    const work = this.#options.group.send(tensor, to, { ...options, async: true });
    this.#sent.push({ action: this.#action, work, tensor: untracked(() => tf.keep(alias(tensor))) });
  }

  #settle(isDue: (sent: Sent) => boolean): void {
    for (let sent = this.#sent[0]; sent !== undefined && isDue(sent); sent = this.#sent[0]) {
      sent.work.wait();
      sent.tensor.dispose();
      this.#sent.shift();
    }
  }

  #receive(message: StageMessage, from: number): tf.Tensor {
    const { engine, group } = this.#options;
    const { stage } = message;
    const shape = this.#shapes.get(stage) ?? this.#receiveShape(message, from);
    this.#shapes.set(stage, shape);
    const tensor = untracked(() =>
      tf.keep(engine.allocate(shape, 'float32', { cause: 'temp', module: boundaryOf(stage), part: 'ring' })),
    );
    try {
      group.recv(tensor, from, optionsOf(message)).wait();
    } catch (error) {
      tensor.dispose();
      throw error;
    }
    return tensor;
  }

  #receiveShape(message: StageMessage, from: number): readonly number[] {
    const { engine, group, shape } = this.#options;
    const header = untracked(() => tf.zeros([MOST_DIMS + 1], 'int32'));
    try {
      group.recv(header, from, this.#headerOptions(message)).wait();
      if (!engine.hasValues) return shape();
      const [rank = 0, ...dims] = header.dataSync();
      return dims.slice(0, rank);
    } finally {
      header.dispose();
    }
  }

  #headerOptions(message: StageMessage): CollectiveOptions {
    const { schedule } = this.#options;
    const { detail, ...options } = optionsOf(message);
    const note = signatureOf([...schedule].map((letter) => letter.charCodeAt(0)));
    return { ...options, cause: 'control', note, detail: `the shape of ${detail}, ${schedule}` };
  }

  #receiverOf({ content, stage }: StageMessage): number {
    const { group } = this.#options;
    return (content === 'output' ? stage + 1 : stage) % group.size;
  }

  #senderOf({ content, stage }: StageMessage): number {
    const { group } = this.#options;
    return (content === 'output' ? stage : stage + 1) % group.size;
  }
}

/** Returns the messages that an action of a rank sends. */
function messagesOf(
  { kind, microbatch, chunk }: Action,
  rank: number,
  { group, numStages }: MailOptions,
): StageMessage[] {
  const stage = chunk * group.size + rank;
  if (kind === 'forward') return stage + 1 < numStages ? [{ content: 'output', stage, microbatch }] : [];
  if (kind === 'backwardWeight' || stage === 0) return [];
  return [{ content: 'gradient', stage: stage - 1, microbatch }];
}

/** The boundary between a stage and the next stage, as ledgers name it. */
function boundaryOf(stage: number): string {
  return `stage ${stage} | ${stage + 1}`;
}

function optionsOf(message: StageMessage): CollectiveOptions {
  const { content, stage, microbatch } = message;
  const from = content === 'output' ? stage : stage + 1;
  return {
    cause: 'activation',
    module: boundaryOf(stage),
    note: 2 * (microbatch * 4096 + stage) + (content === 'output' ? 1 : 2),
    detail: `${content === 'output' ? 'the output' : 'the gradient'} of microbatch ${microbatch} from stage ${from}`,
  };
}

function keyOf({ content, stage, microbatch }: StageMessage): string {
  return `${content} ${stage} ${microbatch}`;
}

function headerOf(shape: readonly number[]): number[] {
  return [shape.length, ...shape, ...new Array<number>(MOST_DIMS - shape.length).fill(0)];
}
