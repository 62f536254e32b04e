import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { curveKeyPair, Dealer, Subscriber } from 'zeromq';
import type { JupyterChannel as KernelChannel } from '../../kernel/front/connection';
import { type Header, type JsonObject, type Message, Wire } from '../../kernel/front/wire';

/** The kernel's program, as built beside these tests. */
export const KERNEL_MAIN = join(__dirname, '..', '..', 'kernel', 'main.js');

/** The results of one request: its reply, and the messages on iopub until idle. */
export interface Exchange {
  readonly reply: Message;
  readonly published: readonly Published[];
}

export interface Published extends Message {
  readonly parent: Partial<Header>;
}

export interface StartOptions {
  readonly transport?: 'tcp' | 'ipc';
  readonly curve?: boolean;
  readonly cwd?: string;
  /** A program that starts the kernel and lives as its parent. */
  readonly launcher?: string;
  /** Variables of the kernel's environment, beside those of the test. */
  readonly env?: NodeJS.ProcessEnv;
}

type Channel = 'shell' | 'control' | 'stdin';

/** A Jupyter client for tests: speaks to one kernel that it has started. */
export class JupyterClient {
  readonly process: ChildProcess;
  readonly published: Published[] = [];
  answerInput: ((prompt: string) => string) | undefined;
  /** The kernel's working folder, unless another was given. */
  readonly folder: string;
  readonly #connection: JsonObject;
  readonly #wire: Wire;
  readonly #sockets: Record<Channel, Dealer>;
  readonly #iopub: Subscriber;
  readonly #replies = new Map<string, (reply: Message) => void>();
  readonly #watchers = new Set<(message: Published) => void>();

  /** Starts a kernel. As Jupyter does, it tries again with other ports if another program took one of them meanwhile. */
  static async start(options: StartOptions = {}): Promise<JupyterClient> {
    for (let attempt = 1; attempt <= 3; attempt++) {
      const client = await JupyterClient.#begin(options);
      const ended = once(client.process, 'exit').then(() => false);
      if (await Promise.race([client.#subscribed().then(() => true), ended])) return client;
      client.close();
    }
    throw new Error('the kernel ended while it started, three times');
  }

  static async #begin(options: StartOptions): Promise<JupyterClient> {
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-kernel-'));
    const keys = options.curve === true ? curveKeyPair() : undefined;
    const ports = options.transport === 'ipc' ? [1, 2, 3, 4, 5] : await freePorts(5);
    const connection = {
      transport: options.transport ?? 'tcp',
      ip: options.transport === 'ipc' ? join(folder, 'socket') : '127.0.0.1',
      key: randomBytes(16).toString('hex'),
      signature_scheme: 'hmac-sha256',
      ...Object.fromEntries(
        ['shell', 'control', 'stdin', 'iopub', 'hb'].map((name, i) => [`${name}_port`, ports[i]]),
      ),
      ...(keys && { curve_publickey: keys.publicKey, curve_secretkey: keys.secretKey }),
    };
    return new JupyterClient(folder, connection, keys?.publicKey, options);
  }

  private constructor(
    folder: string,
    connection: JsonObject,
    serverKey: string | undefined,
    options: StartOptions,
  ) {
    this.folder = folder;
    this.#connection = connection;
    this.#wire = new Wire(String(connection.key));
    const file = join(folder, 'connection.json');
    writeFileSync(file, JSON.stringify(connection));
    const program =
      options.launcher === undefined ? [KERNEL_MAIN, file] : [options.launcher, KERNEL_MAIN, file];
    this.process = spawn(process.execPath, program, {
      cwd: options.cwd ?? folder,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    const address = (channel: string): string => {
      const port = String(connection[`${channel}_port`]);
      return connection.transport === 'ipc' ? `ipc://${connection.ip}-${port}` : `tcp://127.0.0.1:${port}`;
    };
    const security = serverKey === undefined ? {} : { curveServerKey: serverKey, ...clientKeys() };
    const routingId = randomBytes(8).toString('hex');
    const dealer = (channel: Channel): Dealer => {
      const socket = new Dealer({ ...security, routingId, linger: 0, reconnectInterval: 5 });
      socket.connect(address(channel));
      void this.#receive(socket, channel);
      return socket;
    };
    this.#sockets = { shell: dealer('shell'), control: dealer('control'), stdin: dealer('stdin') };
    this.#iopub = new Subscriber({ ...security, linger: 0, reconnectInterval: 5, receiveHighWaterMark: 0 });
    this.#iopub.connect(address('iopub'));
    this.#iopub.subscribe();
    void this.#follow();
  }

  /** Port of a channel, for clients that do not speak the protocol. */
  port(channel: KernelChannel): number {
    return Number(this.#connection[`${channel}_port`]);
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  /** Sends a request; resolves with its reply. */
  request(type: string, content: JsonObject = {}, channel: Channel = 'shell'): Promise<Message> {
    const frames = this.#wire.encode({ type, content });
    const id = messageId(frames);
    const reply = new Promise<Message>((resolve) => this.#replies.set(id, resolve));
    return this.#sockets[channel].send(frames).then(() => reply);
  }

  /** Sends a message that has no reply. */
  async tell(type: string, content: JsonObject): Promise<void> {
    await this.#sockets.shell.send(this.#wire.encode({ type, content }));
  }

  /** Sends frames unchanged, as no client should. */
  async sendFrames(frames: readonly (Buffer | string)[], channel: Channel = 'shell'): Promise<void> {
    await this.#sockets[channel].send([...frames]);
  }

  /** Frames of a message whose parts, valid or not, are signed by the kernel's key. */
  signed(parts: readonly (Buffer | string)[], buffers: readonly Buffer[] = []): (Buffer | string)[] {
    const hmac = createHmac('sha256', String(this.#connection.key));
    for (const part of parts) hmac.update(part);
    return ['<IDS|MSG>', hmac.digest('hex'), ...parts, ...buffers];
  }

  /** Executes code, in a subshell if it is named; resolves when the reply and idle have come. */
  async execute(code: string, extra: JsonObject = {}, subshell?: unknown): Promise<Exchange> {
    const content = {
      code,
      silent: false,
      store_history: true,
      allow_stdin: this.answerInput !== undefined,
      ...extra,
    };
    const frames = this.#inSubshell(this.#wire.encode({ type: 'execute_request', content }), subshell);
    const id = messageId(frames);
    const reply = new Promise<Message>((resolve) => this.#replies.set(id, resolve));
    const published: Published[] = [];
    const idle = this.until((message) => {
      if (message.parent.msg_id !== id) return false;
      published.push(message);
      return message.header.msg_type === 'status' && message.content.execution_state === 'idle';
    });
    await this.#sockets.shell.send(frames);
    await idle;
    return { reply: await reply, published };
  }

  /** Adds the subshell to a message's header, which is signed. */
  #inSubshell(frames: ReturnType<Wire['encode']>, subshell: unknown): ReturnType<Wire['encode']> {
    if (subshell === undefined) return frames;
    const [header = '{}', ...parts] = frames.slice(2).map(String);
    return this.signed([JSON.stringify({ ...JSON.parse(header), subshell_id: subshell }), ...parts]);
  }

  /** Resolves with the next published message that meets the condition. */
  until(condition: (message: Published) => boolean): Promise<Published> {
    return new Promise((resolve) => {
      const watch = (message: Published): void => {
        if (!condition(message)) return;
        this.#watchers.delete(watch);
        resolve(message);
      };
      this.#watchers.add(watch);
    });
  }

  /** Asks the kernel to end, and waits for it. */
  async stop(): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const exited = once(this.process, 'exit');
      // Only the end counts here; another test checks the reply.
      void this.request('shutdown_request', { restart: false }, 'control');
      await exited;
    }
    this.close();
  }

  /** Closes the client's side. */
  close(): void {
    for (const socket of [...Object.values(this.#sockets), this.#iopub]) socket.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #subscribed(): Promise<void> {
    await this.until(({ header }) => header.msg_type === 'iopub_welcome');
  }

  async #receive(socket: Dealer, channel: Channel): Promise<void> {
    for await (const frames of socket) {
      const message = this.#decode(frames);
      if (channel === 'stdin') {
        const value = this.answerInput?.(String(message.content.prompt)) ?? '';
        await socket.send(
          this.#wire.encode({ type: 'input_reply', content: { value }, parent: message.header }),
        );
        continue;
      }
      const id = String(message.parent.msg_id);
      this.#replies.get(id)?.(message);
      this.#replies.delete(id);
    }
  }

  async #follow(): Promise<void> {
    for await (const frames of this.#iopub) {
      const message = this.#decode(frames);
      this.published.push(message);
      for (const watch of [...this.#watchers]) watch(message);
    }
  }

  #decode(frames: readonly Buffer[]): Published {
    const message = this.#wire.decode(frames);
    const start = frames.length - message.buffers.length;
    return { ...message, parent: JSON.parse((frames[start - 3] ?? '{}').toString()) };
  }
}

function messageId(frames: ReturnType<Wire['encode']>): string {
  return JSON.parse(String(frames[2])).msg_id;
}

function clientKeys(): { curvePublicKey: string; curveSecretKey: string } {
  const { publicKey, secretKey } = curveKeyPair();
  return { curvePublicKey: publicKey, curveSecretKey: secretKey };
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => {
    const address = server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  });
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

/** Contents of the published messages of a type. */
export function contents({ published }: Exchange, type: string): JsonObject[] {
  return published.filter(({ header }) => header.msg_type === type).map(({ content }) => content);
}

/** All text that an execution wrote to a stream. */
export function streamText(exchange: Exchange, name: 'stdout' | 'stderr' = 'stdout'): string {
  return contents(exchange, 'stream')
    .filter((content) => content.name === name)
    .map(({ text }) => text)
    .join('');
}

/** The result's text, if there is one. */
export function resultText(exchange: Exchange): unknown {
  const data = contents(exchange, 'execute_result')[0]?.data;
  return typeof data === 'object' && data !== null ? Reflect.get(data, 'text/plain') : undefined;
}

/** The text that the cell's display holds in the end. */
export function shownText(exchange: Exchange): string {
  const shown = [...contents(exchange, 'display_data'), ...contents(exchange, 'update_display_data')];
  return shown.map(({ data }) => String(Reflect.get(Object(data), 'text/plain'))).at(-1) ?? '';
}
