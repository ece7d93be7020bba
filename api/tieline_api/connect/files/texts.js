// The texts of the page. A brand can replace each text and add languages; the API reads the English block (texts.py).

/** @typedef {Record<string, string>} Texts */

/** @type {Record<string, Texts>} */
export const TEXTS = {
  en: {
    title: "Connect your accounts",
    account: "You are connecting accounts for {user}.",
    connect: "Connect {system}",
    again: "Connect again",
    finish: "Finish connecting",
    disconnect: "Disconnect",
    disconnectSure: "Disconnect {system}? What uses it stops working.",
    keep: "Keep it",
    cancel: "Cancel",
    continueTo: "Continue to {system}",
    sameWindow: "Continue in this window",
    save: "Save",
    done: "Done",
    close: "Close",
    connected: "Connected",
    waiting: "Not finished",
    refused: "Needs your attention: {system} rejects the credentials.",
    answered: "It answered: {answer}",
    stored: "Saved, and not tested yet",
    checking: "Checking the credentials with {system}…",
    insecure: "This page was opened over an insecure address. Signing in needs https. Ask for a link with https.",
    restart: "If you have closed that window, you can start again.",
    nothing: "There is nothing to connect here.",
    how: "How do you want to connect?",
    where: "Where do I find it?",
    whereDocs: "More in its documentation",
    scopes: "What may be accessed?",
    wrongInput: "Use letters, digits and hyphens only.",
    wrongInputLike: "Use letters, digits and hyphens only, as in {example}.",
    forExample: "For example: {example}",
    settings: "Settings",
    optional: "optional",
    yes: "Yes",
    no: "No",
    unset: "Not set",
    onePerLine: "One on each line",
    elsewhere: "Continue in the window that opened. This page shows when you are done.",
    blocked: "The browser did not open a window. Allow windows for this page, or open it in a new tab.",
    openTab: "Open this page in a tab",
    nowConnected: "{system} is connected.",
    shared:
      "This account is connected several times, and {system} may end the oldest connection. Disconnect those that nobody needs.",
    nowDisconnected: "{system} is disconnected.",
    saved: "Saved. You can close this page.",
    ended: "This link has expired. Go back to the previous page and open it again.",
    incomplete: "This address is incomplete. Go back to the previous page and open the link again.",
    failed: "That did not work. Try again.",
    offline: "The service did not answer. Try again.",
    invalidJson: "Correct the JSON.",
    loading: "One moment, please.",
    "scheme.oauth2": "Sign in at {system}",
    "scheme.oauth1": "Sign in at {system}",
    "scheme.api-key": "API key",
    "scheme.secret": "Secret",
    "scheme.hmac": "Signing secret",
    "scheme.basic-auth": "User name and password",
    "scheme.certificate": "Certificate",
    "scheme.jwt-bearer": "Private key",
    "scheme.none": "Without a credential",
    "field.value": "Key or secret",
    "field.username": "User name",
    "field.password": "Password",
    "field.certificate": "Certificate (PEM)",
    "field.key": "Private key (PEM) or shared secret",
    "field.ca": "Certificate authority (PEM)",
    "field.keyId": "Key id",
    "field.clientId": "Client id",
    "field.clientSecret": "Client secret",
    "field.scopes": "Scopes, separated by spaces",
  },
  de: {
    title: "Konten verbinden",
    account: "Sie verbinden Konten für {user}.",
    connect: "{system} verbinden",
    again: "Neu verbinden",
    finish: "Verbindung abschließen",
    disconnect: "Trennen",
    disconnectSure: "{system} trennen? Was die Verbindung nutzt, funktioniert dann nicht mehr.",
    keep: "Behalten",
    cancel: "Abbrechen",
    continueTo: "Weiter zu {system}",
    sameWindow: "In diesem Fenster fortfahren",
    save: "Speichern",
    done: "Fertig",
    close: "Schließen",
    connected: "Verbunden",
    waiting: "Nicht abgeschlossen",
    refused: "Bitte prüfen: {system} lehnt die Verbindung ab.",
    answered: "Die Antwort war: {answer}",
    stored: "Gespeichert, noch nicht geprüft",
    checking: "{system} wird gefragt, ob die Angaben stimmen …",
    insecure:
      "Diese Seite wurde über eine unsichere Adresse geöffnet. Die Anmeldung braucht https. Bitten Sie um einen Link mit https.",
    restart: "Wenn Sie das Fenster geschlossen haben, können Sie neu beginnen.",
    nothing: "Hier gibt es nichts zu verbinden.",
    how: "Wie möchten Sie sich verbinden?",
    where: "Wo finde ich das?",
    whereDocs: "Mehr in der Dokumentation",
    scopes: "Worauf darf zugegriffen werden?",
    wrongInput: "Nur Buchstaben, Ziffern und Bindestriche.",
    wrongInputLike: "Nur Buchstaben, Ziffern und Bindestriche, wie in {example}.",
    forExample: "Zum Beispiel: {example}",
    settings: "Einstellungen",
    optional: "freiwillig",
    yes: "Ja",
    no: "Nein",
    unset: "Keine Angabe",
    onePerLine: "Ein Wert pro Zeile",
    elsewhere: "Fahren Sie im neuen Fenster fort. Diese Seite zeigt, wenn Sie fertig sind.",
    blocked:
      "Der Browser hat kein Fenster geöffnet. Erlauben Sie es, oder öffnen Sie diese Seite in einem eigenen Tab.",
    openTab: "Diese Seite in einem Tab öffnen",
    nowConnected: "{system} ist verbunden.",
    shared:
      "Dieses Konto ist mehrfach verbunden, und {system} beendet dann die älteste Verbindung. Trennen Sie, was niemand braucht.",
    nowDisconnected: "{system} ist getrennt.",
    saved: "Gespeichert. Sie können diese Seite schließen.",
    ended: "Dieser Link ist abgelaufen. Öffnen Sie ihn dort neu, wo Sie hergekommen sind.",
    incomplete: "Diese Adresse ist unvollständig. Öffnen Sie den Link dort neu, wo Sie hergekommen sind.",
    failed: "Das hat nicht funktioniert. Versuchen Sie es noch einmal.",
    offline: "Der Dienst hat nicht geantwortet. Versuchen Sie es noch einmal.",
    invalidJson: "Korrigieren Sie das JSON.",
    loading: "Einen Moment bitte.",
    "scheme.oauth2": "Bei {system} anmelden",
    "scheme.oauth1": "Bei {system} anmelden",
    "scheme.api-key": "API-Schlüssel",
    "scheme.secret": "Geheimnis",
    "scheme.hmac": "Signaturschlüssel",
    "scheme.basic-auth": "Benutzername und Passwort",
    "scheme.certificate": "Zertifikat",
    "scheme.jwt-bearer": "Privater Schlüssel",
    "scheme.none": "Ohne Zugangsdaten",
    "field.value": "Schlüssel oder Geheimnis",
    "field.username": "Benutzername",
    "field.password": "Passwort",
    "field.certificate": "Zertifikat (PEM)",
    "field.key": "Privater Schlüssel (PEM) oder gemeinsames Geheimnis",
    "field.ca": "Zertifizierungsstelle (PEM)",
    "field.keyId": "Schlüssel-ID",
    "field.clientId": "Client-ID",
    "field.clientSecret": "Client-Geheimnis",
    "field.scopes": "Berechtigungen, durch Leerzeichen getrennt",
  },
};

/**
 * The language: the one that was asked for, or the first of the browser's that there is, or the brand's usual one.
 * @param {{ languages?: string[], texts?: Record<string, Texts> }} brand
 * @param {readonly string[]} wanted In their order.
 */
export function languageOf(brand, wanted) {
  const own = Object.keys(brand.texts ?? {});
  const offered = brand.languages?.length ? brand.languages : [...new Set([...Object.keys(TEXTS), ...own])];
  const primary = (/** @type {string} */ tag) => tag.toLowerCase().split("-")[0];
  for (const tag of wanted) {
    const exact = offered.find((each) => each.toLowerCase() === tag.toLowerCase());
    const found = exact ?? offered.find((each) => primary(each) === primary(tag));
    if (found) return found;
  }
  return offered[0] ?? "en";
}

/**
 * What says a text in a language: the brand's, or the page's own, or the English one of either.
 * @param {{ texts?: Record<string, Texts> }} brand
 * @param {string} language
 * @returns {(key: string, values?: Record<string, string>) => string}
 */
export function textsIn(brand, language) {
  const primary = language.split("-")[0] ?? language;
  const found = {
    ...TEXTS.en,
    ...brand.texts?.en,
    ...TEXTS[primary],
    ...brand.texts?.[primary],
    ...brand.texts?.[language],
  };
  return (key, values = {}) =>
    (found[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) =>
      Object.hasOwn(values, name) ? (values[name] ?? "") : whole,
    );
}

const RIGHT_TO_LEFT = ["ar", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"];

/** The direction of a language's script. @param {string} language */
export function directionOf(language) {
  return RIGHT_TO_LEFT.includes(language.toLowerCase().split("-")[0] ?? "") ? "rtl" : "ltr";
}
