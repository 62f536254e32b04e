import assert from 'node:assert/strict';
import type { JsonObject } from '../../../kernel/front/wire';
import type { JupyterClient } from '../jupyter-client';

/** A response or an event of the Debug Adapter Protocol. */
export interface DebugMessage {
  readonly success?: boolean;
  readonly message?: string;
  readonly event?: string;
  // biome-ignore lint/suspicious/noExplicitAny: the bodies of all messages, of which tests check a part
  readonly body: any;
}

/** A debugger's client for tests, as JupyterLab's panel. */
export class DebugClient {
  readonly #client: JupyterClient;
  /** The number of published messages that `next` has passed. */
  #passed = 0;

  constructor(client: JupyterClient) {
    this.#client = client;
  }

  /** Sends a request; fails if the kernel refuses it. */
  async request(command: string, args: JsonObject = {}): Promise<DebugMessage['body']> {
    const response = await this.send(command, args);
    assert.equal(response.success, true, `${command}: ${response.message}`);
    return response.body;
  }

  async send(command: string, args: JsonObject = {}): Promise<DebugMessage> {
    const content = { type: 'request', seq: 1, command, arguments: args };
    const reply = await this.#client.request('debug_request', content, 'control');
    return reply.content as unknown as DebugMessage;
  }

  /** Begins a debugging session. */
  async attach(): Promise<void> {
    await this.request('initialize', { clientID: 'test', linesStartAt1: true });
    await this.request('attach');
  }

  /** Sets the breakpoints of a cell; a line may have a condition. */
  async breakAt(
    code: string,
    ...lines: (number | readonly [number, string])[]
  ): Promise<DebugMessage['body']> {
    const { sourcePath: path } = await this.request('dumpCell', { code });
    const breakpoints = lines.map((point) =>
      typeof point === 'number' ? { line: point } : { line: point[0], condition: point[1] },
    );
    const { breakpoints: shown } = await this.request('setBreakpoints', { source: { path }, breakpoints });
    await this.request('configurationDone');
    return shown;
  }

  /** Resolves with the body of the next event with this name after the last one that was returned. */
  async next(event: string): Promise<DebugMessage['body']> {
    for (;;) {
      const { published } = this.#client;
      const at = published.findIndex(
        ({ header, content }, i) =>
          i >= this.#passed && header.msg_type === 'debug_event' && content.event === event,
      );
      if (at >= 0) {
        this.#passed = at + 1;
        return published[at]?.content.body;
      }
      await this.#client.until(({ header }) => header.msg_type === 'debug_event');
    }
  }

  /** Calls of a stopped thread, the innermost first: "f 3" is line 3 in f. */
  async stack(threadId = 1): Promise<string[]> {
    const { stackFrames } = await this.request('stackTrace', { threadId });
    return stackFrames.map(({ name, line }: { name: string; line: number }) => `${name} ${line}`);
  }

  /** The variables of the scope with this name in the innermost call: their values by their names. */
  async variables(threadId = 1, scope = 'Locals'): Promise<Record<string, string>> {
    const { stackFrames } = await this.request('stackTrace', { threadId });
    const { scopes } = await this.request('scopes', { frameId: stackFrames[0].id });
    const chosen = scopes.find(({ name }: { name: string }) => name === scope);
    return this.members(chosen.variablesReference);
  }

  async members(variablesReference: number): Promise<Record<string, string>> {
    const { variables } = await this.request('variables', { variablesReference });
    return Object.fromEntries(
      variables.map(({ name, value }: { name: string; value: string }) => [name, value]),
    );
  }

  /** Evaluates an expression in the innermost call. */
  async evaluate(expression: string, threadId = 1): Promise<DebugMessage> {
    const { stackFrames } = await this.request('stackTrace', { threadId });
    return this.send('evaluate', { expression, frameId: stackFrames[0].id });
  }
}
