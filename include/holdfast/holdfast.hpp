/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast.hpp: holdfast.h for C++17, in this header alone: handles with ownership, and errors that
 * are thrown.
 *
 *     holdfast::client client("mongodb://a,b,c/app?replicaSet=rs0");
 *     holdfast::lock lock = client.acquire("nightly-report");
 *     write_report(lock.token());
 *     lock.release();
 *
 * A lock that goes out of scope, also by an exception, is released in the background. holdfast.h
 * describes each call and its errors, at the function of the same name. It also has what is missing
 * here (listings, documents); get() gives the handle for it. A lock that was moved from is empty:
 * it may only be assigned to, destroyed, or asked with get() and is_held(). */
#ifndef HOLDFAST_HPP
#define HOLDFAST_HPP

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/holdfast.h>

namespace holdfast
{

using std::chrono::milliseconds;

/* An hf_error that is thrown. */
class error : public std::runtime_error
{
  public:
    explicit error(const hf_error &what) : std::runtime_error(what.text), error_(what)
    {
    }

    hf_code code() const noexcept
    {
        return error_.code;
    }

    bool is_retryable() const noexcept
    {
        return error_.retryable;
    }

    const hf_error &get() const noexcept
    {
        return error_;
    }

  private:
    hf_error error_;
};

/* Not for users. */
namespace detail
{

template <auto close> struct closer {
    template <typename T> void operator()(T *handle) const noexcept
    {
        close(handle);
    }
};

template <typename T, auto close> using owned = std::unique_ptr<T, closer<close>>;

/* Calls the function with an hf_error as the last argument, and throws the error, unless it is one
 * of the expected ones. */
template <typename Function, typename... Arguments>
hf_code call_for(std::initializer_list<hf_code> expected, Function *function,
                 Arguments... arguments)
{
    hf_error err{};
    hf_code code = function(arguments..., &err);
    if (code != HF_OK && std::find(expected.begin(), expected.end(), code) == expected.end())
        throw error(err);
    return code;
}

template <typename Function, typename... Arguments>
void call(Function *function, Arguments... arguments)
{
    call_for({}, function, arguments...);
}

/* As wait_ms: nothing to wait means to take it now or not at all. */
constexpr int64_t wait_ms(milliseconds wait)
{
    return wait.count() > 0 ? wait.count() : HF_TRY;
}

} // namespace detail

/* ---- Options: the times of holdfast.h with their units; the other members are set as in C ---- */

struct options : hf_options {
    options() : hf_options{}
    {
        struct_size = sizeof(hf_options);
    }

    options &ttl(milliseconds time)
    {
        ttl_ms = time.count();
        return *this;
    }

    options &stop_margin(milliseconds time)
    {
        stop_margin_ms = time.count();
        return *this;
    }

    options &patience(milliseconds time)
    {
        patience_ms = time.count();
        return *this;
    }

    options &call_patience(milliseconds time)
    {
        call_patience_ms = time.count();
        return *this;
    }
};

struct lock_options : hf_lock_options {
    lock_options() : hf_lock_options{}
    {
        struct_size = sizeof(hf_lock_options);
    }

    /* Zero: now or not at all. Without a call: HF_WAIT_DEFAULT. */
    lock_options &wait(milliseconds time)
    {
        wait_ms = detail::wait_ms(time);
        return *this;
    }

    lock_options &linger(milliseconds time)
    {
        linger_ms = time.count();
        return *this;
    }

    lock_options &feed_within(milliseconds time)
    {
        feed_ms = time.count();
        return *this;
    }

    lock_options &max_hold(milliseconds time)
    {
        max_hold_ms = time.count();
        return *this;
    }

    lock_options &period(milliseconds time)
    {
        period_ms = time.count();
        return *this;
    }
};

struct lease_options : hf_lease_options {
    lease_options() : hf_lease_options{}
    {
        struct_size = sizeof(hf_lease_options);
    }

    lease_options &ttl(milliseconds time)
    {
        ttl_ms = time.count();
        return *this;
    }

    lease_options &wait(milliseconds time)
    {
        lock.wait_ms = detail::wait_ms(time);
        return *this;
    }
};

/* ---- What is held ---- */

/* Ends waits, from another thread or a signal handler: hf_lock_options.cancel is its get(). */
class cancel
{
  public:
    cancel()
    {
        hf_cancel *handle = nullptr;
        detail::call(hf_cancel_new, &handle);
        handle_.reset(handle);
    }

    void fire() noexcept
    {
        hf_cancel_fire(get());
    }

    hf_cancel *get() const noexcept
    {
        return handle_.get();
    }

  private:
    detail::owned<hf_cancel, hf_cancel_free> handle_;
};

/* A lock that was acquired. */
class lock
{
  public:
    /* Takes ownership of the handle. */
    explicit lock(hf_lock *handle) noexcept : handle_(handle)
    {
    }

    bool is_held() const noexcept
    {
        return handle_ && hf_lock_check(get(), nullptr, nullptr) == HF_OK;
    }

    /* What is left of the lease; throws HF_LOST. */
    milliseconds check() const
    {
        int64_t left_ms = 0;
        detail::call(hf_lock_check, get(), &left_ms);
        return milliseconds(left_ms);
    }

    /* Waits for the acknowledgement. The token and the name stay available. */
    void release()
    {
        detail::call(hf_lock_release, get());
    }

    void feed()
    {
        detail::call(hf_lock_feed, get());
    }

    void downgrade()
    {
        detail::call(hf_lock_downgrade, get());
    }

    /* false: others share it, or wait. */
    bool try_upgrade()
    {
        return detail::call_for({HF_HELD}, hf_lock_upgrade, get()) == HF_OK;
    }

    /* How the holder before this one left. Its strings live as long as this lock. */
    hf_last previous() const
    {
        hf_last last{};
        detail::call(hf_lock_previous, get(), &last);
        return last;
    }

    void set_exit_status(int exit_status) noexcept
    {
        hf_lock_set_exit_status(get(), exit_status);
    }

    bool has_run() const noexcept
    {
        return hf_lock_has_run(get());
    }

    /* Becomes readable when the lock is lost. Do not read or close it. */
    int fd() const noexcept
    {
        return hf_lock_fd(get());
    }

    int64_t token() const noexcept
    {
        return hf_lock_token(get());
    }

    hf_mode mode() const noexcept
    {
        return hf_lock_mode(get());
    }

    std::string name() const
    {
        return hf_lock_name(get());
    }

    hf_lock *get() const noexcept
    {
        return handle_.get();
    }

  private:
    detail::owned<hf_lock, hf_lock_close> handle_;
};

/* An ID lease. The end of its scope does not end it: another process that knows the id may go on
 * with it. Renew it after a quarter of its ttl. Uses the client, which must live longer. */
class lease
{
  public:
    lease(hf_client *client, std::unique_ptr<hf_lease> had) noexcept
        : client_(client), had_(std::move(had))
    {
    }

    std::string id() const
    {
        return had_->id;
    }

    int64_t token() const noexcept
    {
        return had_->token;
    }

    milliseconds ttl() const noexcept
    {
        return milliseconds(had_->ttl_ms);
    }

    /* Of the last renewal, by this host's clock; not above 0: it has run out. Asks nobody. */
    milliseconds left() const noexcept
    {
        timespec now{};
        clock_gettime(CLOCK_BOOTTIME, &now);
        std::chrono::nanoseconds at =
            std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
        return std::chrono::floor<milliseconds>(std::chrono::nanoseconds(had_->ends_at_ns) - at);
    }

    /* Throws HF_LOST if another has taken the lock after the end, or the lease was released or
     * broken. */
    void renew()
    {
        auto renewed = std::make_unique<hf_lease>();
        detail::call(hf_lease_renew, client_, had_->id, renewed.get());
        had_ = std::move(renewed);
    }

    void release()
    {
        detail::call(hf_lease_release, client_, had_->id);
    }

    const hf_lease &get() const noexcept
    {
        return *had_;
    }

  private:
    hf_client *client_;
    std::unique_ptr<hf_lease> had_; /* in one place: it has pointers into itself */
};

/* A store that was opened. Its locks may be destroyed after it, but not used. */
class client
{
  public:
    explicit client(const std::string &uri, const hf_options &options = {})
    {
        hf_client *handle = nullptr;
        detail::call(hf_open, uri.c_str(), &options, &handle);
        handle_.reset(handle);
    }

    /* Waits in line; throws if the lock is not granted. */
    lock acquire(const std::string &name, const hf_lock_options &options = {})
    {
        hf_lock *handle = nullptr;
        detail::call(hf_lock_acquire, get(), name.c_str(), &options, &handle);
        return lock(handle);
    }

    /* Nothing if another holds the lock now; ignores wait_ms. */
    std::optional<lock> try_acquire(const std::string &name, const hf_lock_options &options = {})
    {
        return try_acquire_for(name, milliseconds(0), options);
    }

    /* Waits in line for so long, then nothing; ignores wait_ms. */
    std::optional<lock> try_acquire_for(const std::string &name, milliseconds wait,
                                        hf_lock_options options = {})
    {
        options.wait_ms = detail::wait_ms(wait);
        hf_lock *handle = nullptr;
        hf_code code = detail::call_for({HF_HELD, HF_TIMEOUT}, hf_lock_acquire, get(), name.c_str(),
                                        &options, &handle);
        return code == HF_OK ? std::optional<lock>(handle) : std::nullopt;
    }

    /* All of them, in the order of the names, or an error. */
    std::vector<lock> acquire_all(const std::vector<std::string> &names,
                                  const hf_lock_options &options = {})
    {
        std::vector<const char *> texts;
        for (const std::string &name : names)
            texts.push_back(name.c_str());
        std::vector<hf_lock *> handles(names.size());
        std::vector<lock> locks;
        locks.reserve(names.size());
        detail::call(hf_lock_acquire_all, get(), texts.data(), texts.size(), &options,
                     handles.data());
        for (hf_lock *handle : handles)
            locks.emplace_back(handle);
        return locks;
    }

    lease acquire_lease(const std::string &name, const hf_lease_options &options = {})
    {
        auto had = std::make_unique<hf_lease>();
        detail::call(hf_lease_acquire, get(), name.c_str(), &options, had.get());
        return lease(get(), std::move(had));
    }

    /* The lease with an id that another process has handed over; renews it. */
    lease renew_lease(const std::string &id)
    {
        auto had = std::make_unique<hf_lease>();
        detail::call(hf_lease_renew, get(), id.c_str(), had.get());
        return lease(get(), std::move(had));
    }

    void release_lease(const std::string &id)
    {
        detail::call(hf_lease_release, get(), id.c_str());
    }

    /* Calls each(const hf_leader *), at once and after each change of the leader, with nullptr
     * while nobody leads, until it returns false (then this returns true), throws, or the cancel is
     * fired (then this returns false). */
    template <typename Each> bool observe(const std::string &name, Each each, cancel *end = nullptr)
    {
        struct context {
            Each &each;
            std::exception_ptr thrown;
        } to{each, nullptr};
        hf_leader_fn call_each = [](void *ctx, const hf_leader *leader) {
            context *at = static_cast<context *>(ctx);
            try {
                return static_cast<bool>(at->each(leader));
            } catch (...) {
                at->thrown = std::current_exception();
                return false;
            }
        };
        hf_error err{};
        hf_code code = hf_election_observe(get(), name.c_str(), call_each, &to,
                                           end ? end->get() : nullptr, &err);
        if (to.thrown)
            std::rethrow_exception(to.thrown);
        if (code != HF_OK && code != HF_CANCELLED)
            throw error(err);
        return code == HF_OK;
    }

    hf_client *get() const noexcept
    {
        return handle_.get();
    }

  private:
    detail::owned<hf_client, hf_close> handle_;
};

/* A candidate in an election. Leadership ends with its scope. The client must live longer. */
class election
{
  public:
    election(client &voters, const std::string &name, const hf_election_options &options = {})
    {
        hf_election *handle = nullptr;
        detail::call(hf_election_open, voters.get(), name.c_str(), &options, &handle);
        handle_.reset(handle);
    }

    /* Waits until it leads. */
    void campaign(const hf_campaign_options &options = {})
    {
        detail::call(hf_election_campaign, get(), &options);
    }

    /* Waits for so long; false: another leads. Ignores wait_ms. */
    bool campaign_for(milliseconds wait, hf_campaign_options options = {})
    {
        options.wait_ms = detail::wait_ms(wait);
        return detail::call_for({HF_HELD, HF_TIMEOUT}, hf_election_campaign, get(), &options) ==
               HF_OK;
    }

    bool is_leader() const noexcept
    {
        return hf_election_is_leader(get(), nullptr, nullptr);
    }

    /* What is left of the lease; throws HF_LOST when it does not lead. */
    milliseconds check() const
    {
        int64_t left_ms = 0;
        hf_error err{};
        if (!hf_election_is_leader(get(), &left_ms, &err))
            throw error(err);
        return milliseconds(left_ms);
    }

    /* The next in line leads at once. */
    void resign()
    {
        detail::call(hf_election_resign, get());
    }

    int64_t token() const noexcept
    {
        return hf_election_token(get());
    }

    hf_election *get() const noexcept
    {
        return handle_.get();
    }

  private:
    detail::owned<hf_election, hf_election_close> handle_;
};

} // namespace holdfast

#endif
