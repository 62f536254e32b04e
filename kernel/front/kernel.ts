import { randomUUID } from 'node:crypto';
import { inspect as textOf } from 'node:util';
import {
  AGAIN_SECONDS,
  describeActivity,
  interruptChildren,
  SecondInterrupt,
  watchStrayErrors,
} from '../../src/cell';
import { type Seconds, type Warn, warnOnce } from '../../src/core';
import type { CommMessage, ExecutorSettings } from '../executor/protocol';
import { CellExecution } from './cell-execution';
import { complete, inspect, isComplete } from './code-requests';
import type { CompilerClient } from './compiler-client';
import { readConnection } from './connection';
import { Debugger } from './debugger/debugger';
import { CellNumbers } from './execute-queue';
import { type ExecutionEvents, Executions, type Running } from './executions';
import { History } from './history';
import { HistoryFile, historyPath } from './history-file';
import { Publisher } from './publisher';
import { describeFailure, errorReply, kernelInfo } from './replies';
import { bindSockets, type RequestChannel, type Sockets } from './sockets';
import { Subshells } from './subshells';
import { Usage } from './usage';
import { type JsonObject, type Message, readText, Wire } from './wire';

/** Time between two checks whether the kernel's parent process still exists. */
const PARENT_CHECK_MS = 500;

/** Serves the clients of a connection file until a client ends the kernel or the kernel's parent process ends. */
export async function runKernel(
  connectionFile: string,
  settings: ExecutorSettings,
  compiler: CompilerClient,
): Promise<void> {
  const connection = readConnection(connectionFile);
  const warn = warnOnce(log);
  const sockets = await bindSockets(connection, new Wire(connection.key), warn);
  const session = new KernelSession({ sockets, settings, compiler, warn, ended: () => void end() });
  const end = async (): Promise<void> => {
    session.end();
    await Promise.all([sockets.close(), session.saved()]);
    process.exit(0);
  };
  process.on('SIGTERM', () => void end());
  // Interrupts come as messages, so the front ignores the SIGINT that Jupyter sends to the process group.
  process.on('SIGINT', () => {});
  process.on('exit', () => session.end());
  // The reader of the log may be gone, so an error of the log cannot be logged.
  process.stderr.on('error', () => undefined);
  endWithParent(() => void end());
  // Without this handler, an uncaught error would end the front, and all variables would be lost.
  watchStrayErrors(({ thrown }) => log(`no code caught this error; the kernel continues: ${textOf(thrown)}`));
  session.listen();
}

const log: Warn = (message) => {
  process.stderr.write(`shardlab kernel: ${message}\n`);
};

/** Calls `ended` when the parent process has ended. */
function endWithParent(ended: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    ended();
  }, PARENT_CHECK_MS);
}

type Answer = (request: Message) => JsonObject | Promise<JsonObject>;

export interface SessionParts {
  readonly sockets: Sockets;
  readonly settings: ExecutorSettings;
  readonly compiler: CompilerClient;
  /** Reports the error of a request that gets no answer. */
  readonly warn: Warn;
  /** Is called after a client's shutdown request was answered. */
  readonly ended: () => void;
}

/** Answers the requests of one kernel; only execute requests wait for the executor. */
export class KernelSession {
  readonly #parts: SessionParts;
  readonly #publisher: Publisher;
  readonly #history = new History(new HistoryFile(historyPath(process.env)));
  readonly #comms = new CommRegistry();
  readonly #executions: Executions;
  readonly #debugger: Debugger;
  readonly #shells: Subshells;
  readonly #answers: ReadonlyMap<string, Answer>;

  constructor(parts: SessionParts) {
    const { sockets, settings, compiler } = parts;
    this.#parts = parts;
    this.#publisher = new Publisher(sockets);
    this.#executions = new Executions(settings, this.#publisher, this.#handlers());
    const { executor } = this.#executions;
    this.#debugger = new Debugger({
      toNotebook: (order) => executor.debug(order),
      toRanks: (order) => executor.send(order),
      publish: (event) => this.#publisher.publish('debug_event', event, undefined),
    });
    compiler.isNeeded = () => this.#executions.running !== undefined;
    const cells = new CellExecution(compiler, this.#executions, this.#history, this.#debugger);
    const numbers = new CellNumbers();
    const shells = new Subshells({
      cells,
      sockets,
      publisher: this.#publisher,
      history: this.#history,
      numbers,
      ended: parts.ended,
    });
    this.#shells = shells;
    const usage = new Usage();
    const interrupt = createInterrupt(cells, this.#executions, compiler);
    this.#answers = new Map<string, Answer>([
      ['kernel_info_request', () => kernelInfo(settings.installation)],
      ['complete_request', ({ content }) => complete(compiler, content)],
      ['inspect_request', ({ content }) => inspect(compiler, content)],
      ['is_complete_request', ({ content }) => isComplete(compiler, content)],
      [
        'history_request',
        async ({ content }) => ({ status: 'ok', history: await this.#history.find(content) }),
      ],
      ['comm_info_request', ({ content }) => this.#comms.info(content)],
      [
        'execute_request',
        (request) => {
          // Only requests for a subshell that does not exist come here, so this throws.
          shells.add(request);
          return { status: 'ok' };
        },
      ],
      [
        'create_subshell_request',
        () => {
          compiler.wake();
          return shells.create();
        },
      ],
      ['delete_subshell_request', ({ content }) => shells.delete(content)],
      ['list_subshell_request', () => shells.list()],
      ['usage_request', () => usage.answer()],
      ['debug_request', ({ content }) => this.#debugger.answer(content)],
      ['shutdown_request', ({ content }) => ({ status: 'ok', restart: content.restart === true })],
      [
        'interrupt_request',
        () => {
          interrupt();
          return { status: 'ok' };
        },
      ],
    ]);
  }

  #handlers(): ExecutionEvents {
    return {
      askInput: (parent, prompt, password) =>
        this.#parts.sockets.send('stdin', {
          type: 'input_request',
          content: { prompt, password },
          parent: parent.header,
          identities: parent.identities,
        }),
      comm: (message) => this.#comms.note(message),
      debugged: (news, rank) =>
        rank === undefined ? this.#debugger.hearNotebook(news) : this.#debugger.hearRank(rank, news),
      lost: () => this.#forgetCells(),
    };
  }

  listen(): void {
    const { sockets } = this.#parts;
    this.#publisher.status('starting', undefined);
    sockets.listen('shell', (request) => this.#receive('shell', request));
    sockets.listen('control', (request) => this.#receive('control', request));
    sockets.listen('stdin', ({ content }) =>
      this.#executions.executor.send({ type: 'input', value: readText(content, 'value') }),
    );
  }

  /** Resolves when the history is on the disk. */
  saved(): Promise<void> {
    return this.#history.save();
  }

  /** Ends the processes of this kernel. */
  end(): void {
    this.#executions.executor.end();
    this.#parts.compiler.end();
  }

  #receive(channel: RequestChannel, request: Message): void {
    const type = request.header.msg_type;
    // Someone is there, and may run a cell soon. Programs that watch the memory, and widgets, ask again and again.
    if (channel === 'shell' && !type.startsWith('comm')) this.#parts.compiler.wake();
    if (type === 'execute_request' && this.#shells.has(request)) this.#shells.add(request);
    else {
      this.#answer(channel, request, type).catch((thrown: unknown) =>
        this.#parts.warn(`${type} was ignored: ${describeFailure(thrown).evalue}`),
      );
    }
  }

  async #answer(channel: RequestChannel, request: Message, type: string): Promise<void> {
    const { header: parent } = request;
    this.#publisher.status('busy', parent);
    try {
      const comm = this.#comms.read(request);
      if (comm !== undefined) {
        this.#comms.note(comm);
        this.#executions.executor.send(comm);
      }
      await this.#reply(channel, request, type);
    } finally {
      this.#publisher.status('idle', parent);
      // JupyterLab takes the newest status for that of the kernel, and a cell may still run.
      const { runningRequest } = this.#executions;
      if (runningRequest !== undefined) this.#publisher.status('busy', runningRequest.header);
    }
    if (type === 'shutdown_request') this.#parts.ended();
  }

  async #reply(channel: RequestChannel, request: Message, type: string): Promise<void> {
    const { header: parent, identities } = request;
    const answer = this.#answers.get(type) ?? (type.endsWith('_request') ? () => refused(type) : undefined);
    if (answer === undefined) return;
    let content: JsonObject;
    try {
      content = await answer(request);
    } catch (thrown) {
      content = errorReply(describeFailure(thrown));
    }
    const reply = { type: type.replace(/request$/, 'reply'), content, parent, identities };
    this.#parts.sockets.send(channel, reply);
    if (type === 'shutdown_request') this.#publisher.publish('shutdown_reply', content, parent);
  }

  #forgetCells(): void {
    this.#comms.clear();
    this.#debugger.processEnded();
    // Pages that show widgets stay, and do not tell the new process of themselves.
    if (this.#comms.hasPage) this.#executions.executor.send(pageConnects());
    for (const namespace of ['notebook', 'ranks'] as const) {
      // If the compiler fails, lost names still pass the type check, and cells that use these names fail when they run.
      this.#parts.compiler.call('reset', namespace).catch(() => {});
    }
  }
}

/** Answers a request that no protocol of this kernel knows. */
function refused(type: string): JsonObject {
  const evalue = `this kernel knows no ${type}`;
  return errorReply({ ename: 'UnknownRequest', evalue, traceback: [`UnknownRequest: ${evalue}`] });
}

/** The channel that a page opens if it shows widgets. */
const WIDGET_CONTROL = 'jupyter.widget.control';

function pageConnects(): CommMessage {
  return { type: 'comm', kind: 'open', commId: randomUUID(), target: WIDGET_CONTROL, data: {} };
}

/** All open comms; a cell or the front end may have opened them. */
export class CommRegistry {
  readonly #targets = new Map<string, string>();
  /** Whether a page that shows widgets has connected. */
  hasPage = false;

  /** Records that a comm was opened or closed; ignores other messages. */
  note({ kind, commId, target }: CommMessage): void {
    if (kind === 'open') this.#targets.set(commId, target);
    if (kind === 'open' && target === WIDGET_CONTROL) this.hasPage = true;
    if (kind === 'close') this.#targets.delete(commId);
  }

  /** Returns the content of comm_info_reply. */
  info(content: JsonObject): JsonObject {
    const wanted = content.target_name;
    const open = [...this.#targets].filter(
      ([, target]) => wanted === undefined || wanted === '' || wanted === target,
    );
    return {
      status: 'ok',
      comms: Object.fromEntries(open.map(([id, target]) => [id, { target_name: target }])),
    };
  }

  clear(): void {
    this.#targets.clear();
  }

  /**
   * Reads a front end's comm message for the executor; undefined if the request is not a comm message. Throws: CONFIG if a
   * field has a wrong type.
   */
  read({ header, content, metadata, buffers }: Message): CommMessage | undefined {
    const kind = KINDS.get(header.msg_type);
    if (kind === undefined) return undefined;
    const commId = readText(content, 'comm_id');
    const target = readText(content, 'target_name') || (this.#targets.get(commId) ?? '');
    const data = typeof content.data === 'object' && content.data !== null ? { ...content.data } : {};
    return { type: 'comm', kind, commId, target, data, metadata, buffers };
  }
}

const KINDS: ReadonlyMap<string, CommMessage['kind']> = new Map([
  ['comm_open', 'open'],
  ['comm_msg', 'message'],
  ['comm_close', 'close'],
]);

/** Makes the function that handles the user's interrupts; see [Note: native calls]. */
function createInterrupt(cells: CellExecution, executions: Executions, compiler: CompilerClient): () => void {
  const { executor } = executions;
  /**
   * Watches interrupted work. If an execution continues, the next interrupt kills the execution's process. If the compiler still
   * checks a cell, the compiler is replaced.
   */
  const second = new SecondInterrupt<'executor'>();
  /** Reports that the cell has not stopped, unless the executor has noticed the interrupt and reports this itself. */
  const report = (running: Running): 'executor' | undefined => {
    if (executions.running !== running || running.isHeard) return undefined;
    executions.write('stderr', notStopped(executor.pid, running.since));
    // If the process was still starting, it has missed the first interrupt.
    executor.interrupt(false);
    return 'executor';
  };
  return () => {
    const { running } = executions;
    if (running !== undefined && second.take(running) !== undefined) {
      executor.kill('a second interrupt ended it');
      return;
    }
    const hasChildren = running !== undefined && interruptChildren(executor.pid, running.since);
    cells.interrupt(hasChildren);
    if (running !== undefined) {
      running.isHeard = false;
      running.hasChildrenInterrupted ||= hasChildren;
      second.watch(running, () => report(running));
    } else if (cells.current !== undefined) {
      const cell = cells.current;
      second.watch(cell, () => {
        if (cells.current === cell && executions.running === undefined) compiler.replace();
        return undefined;
      });
    }
  };
}

function notStopped(pid: number, since: Seconds): string {
  return (
    `The cell has not stopped: its process (pid ${pid}) ${describeActivity(pid, since)}. ` +
    `Interrupt again within ${AGAIN_SECONDS} s to end the process: the variables of the notebook are lost then, and ` +
    'the ranks of its jobs end. Or wait: the cell stops when the process answers.\n'
  );
}
