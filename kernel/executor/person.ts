import { ShardlabError } from '../../src/core/errors';
import type { OutputChannel } from './output-channel';

/** The user of the notebook, whom a cell may ask. */
export class Person {
  /** Whether the running cell's client can answer. */
  reachable = false;
  readonly #channel: OutputChannel;
  #answer: ((value: string) => void) | undefined;

  constructor(channel: OutputChannel) {
    this.#channel = channel;
  }

  /** Asks for a line of text. Throws: IO when the client does not allow it. */
  prompt(message = '', { password = false }: { readonly password?: boolean } = {}): Promise<string> {
    if (!this.reachable) {
      const advice = 'run the cell in a notebook, or give the value in the code';
      throw new ShardlabError('IO', `prompt("${message}"): this client cannot be asked for input; ${advice}`);
    }
    return new Promise((resolve) => {
      this.#answer = resolve;
      this.#channel.askInput(message, password);
    });
  }

  answer(value: string): void {
    this.#answer?.(value);
    this.#answer = undefined;
  }
}
