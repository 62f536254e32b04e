// A rank process of a test: joins the world, then runs the scenarios that its parent names, one per message.

import { ShardlabError } from '../../../src/core/errors';
import type { CollectiveEvent } from '../../../src/core/events';
import { SILENT } from '../../../src/core/events';
import { createWasmEngine } from '../../../src/engine/backend/wasm-engine';
import { joinWorld } from '../../../src/wire/dist/world';
import { ControlBlock, createControlBuffer } from '../../../src/wire/transport/control-block';
import { createStatusBoard } from '../../../src/wire/transport/status-board';
import { startCourier } from './courier-stand-in';
import type { RankReply, RankRequest, RankSetup, Scenario } from './scenario';

async function main(setup: RankSetup): Promise<void> {
  const control = createControlBuffer();
  startCourier(control);
  const engine = await createWasmEngine({ blas: 'none' });
  const events: CollectiveEvent[] = [];
  const observer = { ...SILENT, collective: (event: CollectiveEvent) => void events.push(event) };
  const { rank, world, link, nodes } = setup;
  const statusBoard = createStatusBoard();
  const plane = setup.plane?.kind === 'zeromq' ? { ...setup.plane, control } : setup.plane;
  const joined = await joinWorld({ rank, world, plane, link, nodes, engine, observer, statusBoard });
  const context = { world: joined, group: joined.group, engine, events, statusBoard };
  process.on('message', (request: RankRequest) => void serve(request));
  process.on('disconnect', () => process.exit(0));
  reply({ kind: 'ready' });

  async function serve(request: RankRequest): Promise<void> {
    if (request.kind === 'close') {
      await joined.close();
      process.disconnect();
      return;
    }
    if (request.kind === 'epoch') {
      reply({ kind: 'value', value: new ControlBlock(control).epoch });
      return;
    }
    try {
      // The module is one of this folder's scenario files.
      const scenarios = require(request.file) as Record<string, Scenario>;
      const scenario = scenarios[request.name];
      if (scenario === undefined) throw new Error(`no scenario ${request.name}`);
      events.length = 0;
      reply({ kind: 'value', value: await scenario(context) });
    } catch (error) {
      reply({ kind: 'error', error: asJson(error) });
    }
  }
}

function asJson(error: unknown) {
  if (error instanceof ShardlabError) return error.toJSON();
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: 'INTERNAL' as const, message: text };
}

function reply(message: RankReply): void {
  process.send?.(message);
}

void main(JSON.parse(process.argv[2] ?? '{}'));
