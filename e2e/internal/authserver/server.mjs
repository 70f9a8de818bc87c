// The certified authorization server of npm's oidc-provider, as the tests need it.
//
// It reads its configuration as one line of JSON from stdin and ends when stdin does, so that
// nothing is left of a killed test. It prints one line, the two ports that it listens on: of the
// provider, which the tests reach through the address of the issuer, and of the control, which is for
// authserver.go alone. Everything it knows is in memory.

import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Provider, errors } from 'oidc-provider';

console.info = console.error; // stdout is for the ports; oidc-provider has notices to give

const entries = new Map(); // by model and id: {model, id, payload, until}
const scopesOf = new Map(); // of each resource, in one string
const people = new Map(); // claims of accounts, besides sub

// Store is oidc-provider's adapter over entries.
class Store {
  constructor(model) {
    this.model = model;
  }

  async upsert(id, payload, expiresIn) {
    const until = expiresIn ? Date.now() + expiresIn * 1000 : Infinity;
    entries.set(`${this.model} ${id}`, { model: this.model, id, payload, until });
  }

  async find(id) {
    const entry = entries.get(`${this.model} ${id}`);
    return entry && entry.until > Date.now() ? entry.payload : undefined;
  }

  async findByUid(uid) {
    return this.first((payload) => payload.uid === uid);
  }

  async findByUserCode(userCode) {
    return this.first((payload) => payload.userCode === userCode);
  }

  first(matches) {
    for (const { model, payload, until } of entries.values()) {
      if (model === this.model && until > Date.now() && matches(payload)) return payload;
    }
    return undefined;
  }

  async consume(id) {
    const payload = await this.find(id);
    if (payload) payload.consumed = Math.floor(Date.now() / 1000);
  }

  async destroy(id) {
    entries.delete(`${this.model} ${id}`);
  }

  async revokeByGrantId(grantId) {
    forget((model, payload) => model === this.model && payload.grantId === grantId);
  }
}

// forget deletes the entries that match, and says how many.
function forget(matches) {
  let count = 0;
  for (const [key, { model, id, payload }] of entries) {
    if (matches(model, payload, id)) {
      entries.delete(key);
      count += 1;
    }
  }
  return count;
}

function newProvider(config) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const provider = new Provider(config.issuer, {
    adapter: Store,
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig', kid: 'signing' }] },
    cookies: { keys: ['signs the cookies of a test'], names: cookieNames(config) },
    scopes: config.scopes,
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
    clientBasedCORS: () => false,
    pkce: { required: () => true },
    rotateRefreshToken: true,
    issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    expiresWithSession: async () => false,
    findAccount: async (_ctx, id) => ({ accountId: id, claims: async () => ({ ...people.get(id), sub: id }) }),
    claims: {
      openid: ['sub'], profile: ['name', 'preferred_username'], email: ['email'], groups: ['groups'],
    },
    conformIdTokenClaims: !config.claimsInIDToken,
    interactions: { url: (_ctx, interaction) => `${mountPath(config)}/interaction/${interaction.uid}` },
    ttl: {
      AccessToken: () => config.accessTokenSeconds,
      ClientCredentials: () => config.accessTokenSeconds,
      AuthorizationCode: 60,
      RefreshToken: 24 * 3600,
      IdToken: 3600,
      Interaction: 3600,
      Session: 24 * 3600,
      Grant: 24 * 3600,
    },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true },
      revocation: { enabled: true },
      registration: { enabled: config.registration, initialAccessToken: config.initialAccessToken || false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: async (_ctx, resource) => {
          if (!scopesOf.has(resource)) throw new errors.InvalidTarget();
          return {
            audience: resource,
            scope: scopesOf.get(resource),
            accessTokenFormat: 'jwt',
            accessTokenTTL: config.accessTokenSeconds,
          };
        },
      },
    },
    // The JWKS of clients are on this machine, where oidc-provider's own dispatcher would not go.
    fetch: (url, { dispatcher, ...options }) => fetch(url, options),
    renderError: async (ctx, out) => {
      ctx.type = 'text';
      ctx.body = `${out.error}: ${out.error_description ?? ''}`;
    },
  });
  provider.on('server_error', (_ctx, err) => console.error(err));
  return provider;
}

// cookieNames differ from server to server, since cookies do not care for ports.
function cookieNames(config) {
  const { port } = new URL(config.issuer);
  return { session: `session_${port}`, interaction: `interaction_${port}`, resume: `resume_${port}` };
}

function mountPath(config) {
  return new URL(config.issuer).pathname.replace(/\/$/, '');
}

// Login and consent: a page each, with one form.

function escaped(text) {
  return String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

function page(title, body) {
  return `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${escaped(title)}</title></head>
<body><h1>${escaped(title)}</h1>${body}</body></html>`;
}

function loginPage() {
  return page('Sign in', `<form method="post" id="login">
<label>Account <input name="account" data-testid="account" required autofocus></label>
<button type="submit" data-testid="sign-in">Sign in</button>
</form>`);
}

function consentPage({ params, prompt, session }) {
  const { missingOIDCScope = [], missingResourceScopes = {} } = prompt.details;
  const asked = [
    ...missingOIDCScope,
    ...Object.entries(missingResourceScopes).flatMap(([resource, scopes]) => scopes.map((s) => `${s} at ${resource}`)),
  ];
  return page('Consent', `<p>${escaped(params.client_id)} asks ${escaped(session.accountId)} for:</p>
<ul>${asked.map((a) => `<li>${escaped(a)}</li>`).join('')}</ul>
<form method="post" id="consent">
<button type="submit" data-testid="allow">Allow</button>
<button type="submit" data-testid="deny" name="answer" value="deny">Deny</button>
</form>`);
}

async function consented(provider, { grantId, params, prompt, session }) {
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingOIDCClaims, missingResourceScopes } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
  if (missingOIDCClaims) grant.addOIDCClaims(missingOIDCClaims);
  for (const [resource, scopes] of Object.entries(missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(' '));
  }
  return { consent: { grantId: await grant.save() } };
}

async function interact(provider, request, response) {
  const details = await provider.interactionDetails(request, response);
  const login = details.prompt.name === 'login';
  if (request.method !== 'POST') {
    response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', 'Cache-Control': 'no-store' });
    response.end(login ? loginPage() : consentPage(details));
    return;
  }
  const form = new URLSearchParams(await read(request));
  let result;
  if (login) {
    result = { login: { accountId: form.get('account') } };
  } else if (form.get('answer') === 'deny') {
    result = { error: 'access_denied', error_description: 'the person said no' };
  } else {
    result = await consented(provider, details);
  }
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: !result.error });
}

// Control.

function controls(config, provider) {
  return {
    async resource({ url, scopes }) {
      scopesOf.set(url, scopes.join(' '));
    },
    async client(metadata) {
      await provider.Client.adapter.upsert(metadata.client_id, metadata);
      await provider.Client.find(metadata.client_id); // it throws what is wrong with it
    },
    async person({ account, claims }) {
      people.set(account, claims);
    },
    async lifetime({ seconds }) {
      config.accessTokenSeconds = seconds;
    },
    async revoke({ client }) {
      const models = ['AccessToken', 'RefreshToken', 'ClientCredentials', 'AuthorizationCode', 'Grant'];
      return forget((model, payload) => models.includes(model) && (!client || payload.clientId === client));
    },
    async forgetClient({ client }) {
      return forget((model, _payload, id) => model === 'Client' && id === client);
    },
  };
}

async function read(request) {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  return text;
}

// serve answers with what handle does, and with 500 where it throws.
function serve(handle) {
  const server = createServer((request, response) => {
    handle(request, response).catch((err) => {
      console.error(err);
      if (!response.headersSent) response.writeHead(500);
      response.end(err.error_description ?? err.message);
    });
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(server.address().port));
  });
}

async function main(config) {
  const provider = newProvider(config);
  const control = controls(config, provider);
  for (const client of config.clients) await control.client(client);
  for (const resource of config.resources) await control.resource(resource);

  const mounted = mountPath(config);
  const callback = provider.callback();
  const providerPort = await serve(async (request, response) => {
    if (request.url.startsWith(`${mounted}/interaction/`)) {
      await interact(provider, request, response);
      return;
    }
    if (mounted) { // as an Express application would mount it
      request.originalUrl = request.url;
      request.url = request.url.slice(mounted.length) || '/';
    }
    await callback(request, response);
  });
  const controlPort = await serve(async (request, response) => {
    const answer = await control[request.url.slice(1)](JSON.parse(await read(request)));
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(answer ?? null));
  });
  console.log(JSON.stringify({ provider: providerPort, control: controlPort }));
}

let begun = false;
createInterface({ input: process.stdin })
  .on('line', (line) => {
    if (begun) return;
    begun = true;
    main(JSON.parse(line)).catch((err) => {
      console.error(err);
      process.exit(1);
    });
  })
  .on('close', () => process.exit(0));
