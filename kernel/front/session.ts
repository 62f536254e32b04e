import type { Warn } from '../../src/core/warn';
import type { ExecutorSettings } from '../executor/protocol';
import { CellExecution } from './cell-execution';
import { CommRegistry } from './comm-registry';
import type { CompilerClient } from './compiler-client';
import { ExecuteQueue } from './execute-queue';
import { Executions } from './executions';
import { type ExecutorClient, startExecutor } from './executor-client';
import { History } from './history';
import { Interruption } from './interruption';
import { Publisher } from './publisher';
import { describeFailure, errorReply, kernelInfo } from './replies';
import type { RequestChannel, Sockets } from './sockets';
import { complete, inspect, isComplete } from './tooling-requests';
import { type Json, type Message, readText } from './wire';

type Answer = (request: Message) => Json | Promise<Json>;

export interface SessionParts {
  readonly sockets: Sockets;
  readonly settings: ExecutorSettings;
  readonly compiler: CompilerClient;
  /** Takes errors of requests without an answer. */
  readonly warn: Warn;
  /** Called when a client has asked for a shutdown and got its answer. */
  readonly ended: () => void;
}

/** One kernel: answers requests at once, whatever the executor does, except execute requests. */
export class KernelSession {
  readonly #sockets: Sockets;
  readonly #publisher: Publisher;
  readonly #history = new History();
  readonly #comms = new CommRegistry();
  readonly #compiler: CompilerClient;
  readonly #executor: ExecutorClient;
  readonly #executions: Executions;
  readonly #interruption: Interruption;
  readonly #queue: ExecuteQueue;
  readonly #answers: ReadonlyMap<string, Answer>;
  readonly #warn: Warn;
  readonly #ended: () => void;

  constructor({ sockets, settings, compiler, warn, ended }: SessionParts) {
    this.#sockets = sockets;
    this.#warn = warn;
    this.#compiler = compiler;
    this.#ended = ended;
    this.#publisher = new Publisher(sockets);
    this.#executions = new Executions(this.#publisher, (parent, prompt, password) =>
      sockets.send('stdin', {
        type: 'input_request',
        content: { prompt, password },
        parent: parent.header,
        identities: parent.identities,
      }),
    );
    this.#executor = this.#start(settings);
    const cells = new CellExecution(this.#compiler, this.#executor, this.#executions);
    this.#interruption = new Interruption({
      cells,
      executions: this.#executions,
      executor: this.#executor,
      compiler: this.#compiler,
      say: (text) => this.#publisher.stream('stderr', text, this.#executions.current?.header),
    });
    this.#queue = new ExecuteQueue({
      cells,
      sockets,
      publisher: this.#publisher,
      history: this.#history,
    });
    this.#answers = this.#answerTable(settings);
  }

  listen(): void {
    this.#publisher.status('starting', undefined);
    this.#sockets.listen('shell', (request) => this.#receive('shell', request));
    this.#sockets.listen('control', (request) => this.#receive('control', request));
    this.#sockets.listen('stdin', ({ content }) =>
      this.#executor.send({ type: 'input', value: readText(content, 'value') }),
    );
  }

  /** Ends the processes of this kernel. */
  end(): void {
    this.#executor.end();
    this.#compiler.end();
  }

  #start(settings: ExecutorSettings): ExecutorClient {
    return startExecutor(settings, {
      message: (message) => {
        if (message.type === 'comm') this.#comms.note(message);
        this.#executions.receive(message);
      },
      stray: (name, text) => this.#publisher.stream(name, text, this.#executions.current?.header),
      died: (how) => this.#executorDied(how),
    });
  }

  #answerTable({ installation }: ExecutorSettings): ReadonlyMap<string, Answer> {
    return new Map<string, Answer>([
      ['kernel_info_request', () => kernelInfo(installation)],
      ['complete_request', ({ content }) => complete(this.#compiler, content)],
      ['inspect_request', ({ content }) => inspect(this.#compiler, content)],
      ['is_complete_request', ({ content }) => isComplete(this.#compiler, content)],
      ['history_request', ({ content }) => ({ status: 'ok', history: this.#history.find(content) })],
      ['comm_info_request', ({ content }) => this.#comms.info(content)],
      ['interrupt_request', () => this.#interrupt()],
      ['shutdown_request', ({ content }) => ({ status: 'ok', restart: content.restart === true })],
    ]);
  }

  #receive(channel: RequestChannel, request: Message): void {
    const type = request.header.msg_type;
    if (type === 'execute_request') this.#queue.add(request);
    else {
      this.#answer(channel, request, type).catch((thrown: unknown) =>
        this.#warn(`${type} was ignored: ${describeFailure(thrown).evalue}`),
      );
    }
  }

  async #answer(channel: RequestChannel, request: Message, type: string): Promise<void> {
    const { header: parent } = request;
    this.#publisher.status('busy', parent);
    try {
      this.#passToComm(request);
      await this.#reply(channel, request, type);
    } finally {
      this.#publisher.status('idle', parent);
    }
    if (type === 'shutdown_request') this.#ended();
  }

  #passToComm(request: Message): void {
    const comm = this.#comms.read(request);
    if (comm === undefined) return;
    this.#comms.note(comm);
    this.#executor.send(comm);
  }

  async #reply(channel: RequestChannel, request: Message, type: string): Promise<void> {
    const { header: parent, identities } = request;
    const answer = this.#answers.get(type);
    if (answer === undefined) return;
    const content = await this.#content(answer, request);
    this.#sockets.send(channel, { type: type.replace(/request$/, 'reply'), content, parent, identities });
    if (type === 'shutdown_request') this.#publisher.publish('shutdown_reply', content, parent);
  }

  async #content(answer: Answer, request: Message): Promise<Json> {
    try {
      return await answer(request);
    } catch (thrown) {
      return errorReply(describeFailure(thrown));
    }
  }

  #interrupt(): Json {
    this.#interruption.interrupt();
    return { status: 'ok' };
  }

  #executorDied(how: string): void {
    // SIGKILL comes from the host, SIGABRT from V8.
    const hint = how === 'SIGKILL' || how === 'SIGABRT' ? ', as processes do when memory runs out' : '';
    const evalue = `the process that ran the cells ended (${how}${hint}); its variables are gone and its jobs' ranks have ended, the next cell starts a new one`;
    const error = { ename: 'KernelDied', evalue, traceback: [`KernelDied: ${evalue}`] };
    this.#comms.clear();
    for (const namespace of ['notebook', 'ranks'] as const) {
      // A compiler that fails to answer is restarted and has forgotten everything anyway.
      this.#compiler.call('reset', namespace).catch(() => {});
    }
    const { current } = this.#executions;
    if (!this.#executions.abandon({ ok: false, error })) {
      this.#publisher.stream('stderr', `${error.traceback[0]}\n`, current?.header);
    }
  }
}
