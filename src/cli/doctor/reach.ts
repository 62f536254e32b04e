import { networkInterfaces } from 'node:os';
import { isPlaceholder } from '../../programs';
import type { Io } from '../io';
import type { Check } from './checks';
import { checkInterfaces } from './interface-variables';
import { adviceOn, foundBy, PLACEHOLDER_ADVICE } from './reach-advice';
import { type Probed, probe } from './reach-probe';
import { type ReachRequest, reachRequestOf, type Target } from './reach-target';

/**
 * `shardlab doctor --reach`: tests whether this machine reaches addresses, and says what is wrong. The test takes at most
 * MOST_SECONDS. Throws: CONFIG if `text` names no address.
 */
export async function checkReach(text: string, io: Pick<Io, 'cwd' | 'env'>): Promise<readonly Check[]> {
  const request = reachRequestOf(text, io);
  const tested = await Promise.all(
    request.targets.map(async (target) => ({
      target,
      probed: isUnwritten(target.host) ? null : await probe(target.host, target.port),
    })),
  );
  const meeting = tested.find(({ target }) => target.service === 'rendezvous')?.probed ?? undefined;
  return [
    ...tested.map(({ target, probed }) => checkOf(target, probed, request)),
    ...checkNumber(request, meeting),
    ...checkInterfaces(request.variables, Object.keys(networkInterfaces()), meeting?.route?.interface),
  ];
}

/** Whether the host is not yet an address, but a placeholder or a shell variable that is not set. */
function isUnwritten(host: string): boolean {
  return host.includes('$') || isPlaceholder(host);
}

function checkOf(target: Target, probed: Probed | null, request: ReachRequest): Check {
  const { host, port, service, where } = target;
  const name = `reach ${host.includes(':') ? `[${host}]` : host}:${port}`;
  const named = where === undefined ? '' : ` (${where})`;
  const facts = { host, port, service, where: where ?? null };
  if (probed === null) {
    const finding = `a placeholder, not yet replaced by an address${named}`;
    return {
      ...{ name, status: 'bad', found: finding, advice: PLACEHOLDER_ADVICE },
      facts: { ...facts, outcome: 'placeholder', reachable: false },
    };
  }
  const isLost = probed.isLoopback && (request.machines ?? 1) > 1;
  const { outcome, route, address, addresses, milliseconds, isOwn } = probed;
  const advice = adviceOn(target, probed, isLost);
  return {
    name,
    status: outcome === 'open' && !isLost ? 'good' : 'bad',
    found: `${foundBy(target, probed)}${named}`,
    ...(advice === undefined ? {} : { advice }),
    facts: {
      ...facts,
      ...{ outcome, reachable: outcome === 'open', milliseconds, isOwn },
      ...{
        address: address ?? null,
        addresses,
        interface: route?.interface ?? null,
        source: route?.source ?? null,
      },
    },
  };
}

/** Checks the index that a file gives this machine: only machine 0 has the address of machine 0. */
function checkNumber({ machine }: ReachRequest, meeting: Probed | undefined): readonly Check[] {
  if (machine === undefined || meeting?.address === undefined || meeting.isLoopback) return [];
  const { isOwn, address, outcome } = meeting;
  if ((machine === 0) === isOwn) return [];
  const name = 'machine number';
  if (isOwn) {
    const finding = `the file is for machine ${machine}, but this machine has the address of machine 0 (${address})`;
    const advice = `if this is machine 0, use its file; if not, write the address of machine 0: it is the same in the files of all machines`;
    return [{ name, status: 'bad', found: finding, advice }];
  }
  const finding = `the file is for machine 0, but this machine does not have its address (${address})`;
  const advice = `run the test on machine ${machine} with this file, and on each other machine with its own; behind address translation, name an address that machine 0 itself has`;
  return [{ name, status: outcome === 'open' ? 'note' : 'bad', found: finding, advice }];
}
