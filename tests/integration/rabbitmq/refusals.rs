//! Who may read what, and over which connection. Never a zero.

use libtest_mimic::Trial;
use tidegate_tests::harness::step;
use tidegate_tests::services::rabbitmq::{READER, SharedRabbitMq, WITHOUT_RIGHTS, WITHOUT_TAG};
use tidegate_tests::{Result, trials};

use super::{Pairs, Triggers};

pub fn trials() -> Vec<Trial> {
    trials![
        b65_a_client_certificate_is_a_user,
        b66_tls_is_verified_on_both_protocols,
        b69_what_is_refused_is_named,
        permissions_can_be_taken_away,
    ]
}

async fn b69_what_is_refused_is_named(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("b69").await?;
    admin.make_queue("b69", "q", "classic").await?;
    let (http, amqp) = (rabbitmq.http(READER), rabbitmq.amqp(WITHOUT_TAG));
    let wrong = |host: &str| host.replace("p%40ss", "wrong");
    for (host, text) in [
        (wrong(&http) + "/b69", "credentials rejected (basic)"),
        (
            rabbitmq.http(WITHOUT_TAG) + "/b69",
            "not authorised to read the management API: the user lacks the tag management",
        ),
        (rabbitmq.http(WITHOUT_RIGHTS) + "/b69", "not authorised to read virtual host b69"),
        (http.clone() + "/none", "virtual host none not found"),
        (http.clone() + "/sub/b69", "the management API under host not found"),
        (wrong(&amqp) + "/b69", "credentials rejected (plain)"),
        (rabbitmq.amqp(WITHOUT_RIGHTS) + "/b69", "not authorised to read virtual host b69"),
        (amqp.clone() + "/none", "virtual host none not found"),
    ] {
        step(text);
        let mut triggers = Triggers::new(&[("host", &host)], &[&[("queueName", "q")], &[("queueName", "none")]])?;
        assert_eq!(triggers.errors().await, [text, text]);
    }
    for host in [http, amqp] {
        let mut triggers = Triggers::new(&[("host", &(host + "/b69"))], &[&[("queueName", "none")]])?;
        assert_eq!(triggers.errors().await, ["queue none not found"]);
    }
    Ok(())
}

async fn permissions_can_be_taken_away(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("taken").await?;
    admin.make_queue("taken", "q", "classic").await?;
    admin.publish("taken", "q", 2).await?;
    let mut http = Triggers::new(&[("host", &(rabbitmq.http(READER) + "/taken"))], &[&[("queueName", "q")]])?;
    assert_eq!(http.values().await?, [(2.0, true)]);
    admin.delete(&format!("/api/permissions/taken/{READER}")).await?;
    assert_eq!(http.errors().await, ["not authorised to read virtual host taken"]);
    admin.make_vhost("taken").await?;
    assert_eq!(http.values().await?, [(2.0, true)]);
    Ok(())
}

async fn b66_tls_is_verified_on_both_protocols(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("b66").await?;
    admin.make_queue("b66", "q", "classic").await?;
    admin.publish("b66", "q", 3).await?;
    let ca = rabbitmq.ca_pem();
    let https = rabbitmq.https(READER) + "/b66";
    let amqps = rabbitmq.amqp(READER).replace("amqp://", "amqps://");
    let (amqps, _) = amqps.rsplit_once('@').ok_or("no credentials")?;
    let amqps = format!("{amqps}@{}/b66", rabbitmq.amqps().trim_start_matches("amqps://"));
    for host in [&https, &amqps] {
        let queue: &[Pairs<'_>] = &[&[("queueName", "q")]];
        let mut trusted = Triggers::with_credential(&[("host", host)], queue, Some(&[("ca", &ca)]))?;
        assert_eq!(trusted.values().await?, [(3.0, true)]);
        let mut insecure = Triggers::new(&[("host", host), ("unsafeSsl", "true")], queue)?;
        assert_eq!(insecure.values().await?, [(3.0, true)]);
        // Nobody else has become lenient by that.
        let error = Triggers::new(&[("host", host)], queue)?.errors().await.remove(0);
        assert!(error.contains("the server's certificate has an unknown issuer"), "{error}");
        let plain = host.replace("https:", "http:").replace("amqps:", "amqp:");
        let error = Triggers::new(&[("host", &plain)], queue)?.errors().await.remove(0);
        assert!(error.starts_with("source "), "{error}");
    }
    Ok(())
}

async fn b65_a_client_certificate_is_a_user(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("b65").await?;
    admin.make_queue("b65", "q", "classic").await?;
    admin.publish("b65", "q", 3).await?;
    let (ca, client) = (rabbitmq.ca_pem(), rabbitmq.client());
    let credential =
        [("tls", "enable"), ("ca", &ca), ("cert", client.certificate.as_str()), ("key", client.key.as_str())];
    let host = rabbitmq.amqps() + "/b65";
    let mut external = Triggers::with_credential(&[("host", &host)], &[&[("queueName", "q")]], Some(&credential))?;
    assert_eq!(external.values().await?, [(3.0, true)]);
    Ok(())
}
