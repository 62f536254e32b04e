import { CONNECT_SECONDS, NAME_SECONDS, ownNetworks, type Probed } from './reach-probe';
import type { Target } from './reach-target';

export const PLACEHOLDER_ADVICE =
  'write the address of machine 0, the same on all machines; on machine 0, `ip address` shows it';

/** Returns a sentence that says what a test found. */
export function foundBy({ host }: Target, probed: Probed): string {
  const { outcome, address, milliseconds, code } = probed;
  const who = address === undefined || address === host ? host : `${host} (${address})`;
  const by = wayOf(probed);
  switch (outcome) {
    case 'open':
      return `answers after ${milliseconds} ms, ${by}`;
    case 'refused':
      return `${who} refuses the connection (${code}), ${by}`;
    case 'silent':
      return `${who} does not answer within ${CONNECT_SECONDS} s, ${by}`;
    case 'no host':
      return `no machine answers for ${who} (${code}), ${by}`;
    case 'no route':
      return `this machine has no route to ${who} (${code}); its networks: ${ownNetworks().join(', ') || 'none'}`;
    case 'blocked':
      return `this machine itself forbids the connection (${code}), ${by}`;
    case 'unknown name':
      return `the name ${host} is unknown on this machine (${code})`;
    case 'silent name server':
      return `no name server answers for ${host} within ${NAME_SECONDS} s`;
    case 'failed':
      return `the connection to ${who} fails (${code}), ${by}`;
    default:
      return outcome satisfies never;
  }
}

function wayOf({ isOwn, isLoopback, route }: Probed): string {
  if (isLoopback) return 'on this machine itself';
  if (route === undefined) return 'over an unknown interface';
  if (isOwn) return `on this machine itself (${route.interface})`;
  const direct = route.isDirect ? '' : ', through a router';
  return `over ${route.interface} from ${route.source}${direct}`;
}

/**
 * Returns a sentence that says what to do; undefined: the user need not do anything. `isLost`: several machines should meet
 * at an address that each of them takes for its own.
 */
export function adviceOn(target: Target, probed: Probed, isLost: boolean): string | undefined {
  if (isLost) {
    return `every machine takes this address for its own: name an address of machine 0 that the others reach (this machine has ${ownNetworks().join(', ') || 'none'})`;
  }
  const { port, host } = target;
  const { outcome, isOwn, isLoopback, route } = probed;
  switch (outcome) {
    case 'open':
      return undefined;
    case 'refused':
      return refusedAdvice(target, isOwn && !isLoopback);
    case 'silent':
      return route?.isDirect === true
        ? `a firewall drops the packets, on machine 0 or on this one: open port ${port} (NCCL and gloo need the other ports too)`
        : `a firewall or a router drops the packets, or ${host} is in a network that this machine does not share: open port ${port}, or name an address of machine 0 in one of this machine's networks (${ownNetworks().join(', ')})`;
    case 'no host':
      return `the machine is off, its cable or interface is down, or it has another address: compare with the output of \`ip address\` on that machine`;
    case 'no route':
      return 'name an address of machine 0 in one of these networks, or connect this machine to that network';
    case 'blocked':
      return `a firewall of this machine refuses outgoing connections: allow port ${port}`;
    case 'unknown name':
      return 'write the address in place of the name, or add the name to /etc/hosts of every machine';
    case 'silent name server':
      return 'write the address in place of the name, or repair /etc/resolv.conf';
    case 'failed':
      return `test the port by hand: nc -vz ${host} ${port}`;
    default:
      return outcome satisfies never;
  }
}

function refusedAdvice({ port, host, service }: Target, isMachineZero: boolean): string {
  if (service === 'ssh')
    return `no ssh server listens on port ${port} of ${host}: start it, or correct --ssh_port`;
  if (isMachineZero) {
    return `this machine has the address, so it is machine 0, and nothing listens on port ${port} yet: start its launcher, then the other machines`;
  }
  return `nothing listens on port ${port} of ${host} yet: start machine 0 first, then test again; if its launcher runs already, compare address and port with its settings`;
}
