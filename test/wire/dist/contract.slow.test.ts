import { contractOver } from './contract-suite';

// contract.long has the other worlds.
for (const world of [1, 4]) contractOver('shared-memory', world);
contractOver('zeromq', 3);
